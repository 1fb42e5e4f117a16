"""Checks that a segment's indexes agree with its batches, which are passed to the checks in order.

| index | rule |
|---|---|
| offset | offsets and positions rise; positions are batch starts, and no later record has a lower offset |
| time | timestamps rise, offsets do not fall; each timestamp is the largest up to its offset |
| transaction | last offsets rise; the record there is the abort marker of that producer |

Errors: CorruptIndex, naming the entry and its position in the file.
Source: the checks of kafka.tools.DumpLogSegments of Apache Kafka; KIP-33, KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol, TypeVar

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.disk.errors import CorruptCheckpoint, CorruptIndex
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.segment.batch_scan import CheckedBatch
from tidelog.storage.segment.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from tidelog.storage.segment.offset_index import OffsetIndex, OffsetPosition
from tidelog.storage.segment.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from tidelog.storage.segment.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from tidelog.storage.segment.txn_index import ENTRY_SIZE as TXN_ENTRY_SIZE
from tidelog.storage.segment.txn_index import AbortedTransaction, TransactionIndex

E = TypeVar("E")

_BEFORE_ALL: Final = -1
# Version, count and the first entry are on the lines before it.
_SECOND_ENTRY_LINE: Final = 4


class IndexCheck(Protocol):
    """One index that is compared with the batches of its segment."""

    def saw(self, batch: CheckedBatch) -> None:
        """Check the entries for the segment's next batch."""

    def at_end(self, size_bytes: int, last_offset: Offset) -> None:
        """Check the entries after the last batch; `last_offset` is base offset - 1 if there is none."""


class OffsetIndexCheck:
    """Compares an offset index with the batches."""

    def __init__(self, index: OffsetIndex) -> None:
        self._path = index.file.path
        self._entries = _numbered_entries(index.entries())
        self._last = OffsetPosition(_BEFORE_ALL, _BEFORE_ALL)
        self._next = next(self._entries, None)

    def saw(self, batch: CheckedBatch) -> None:
        """Check the entries that point at or before the batch's first byte."""
        while self._next is not None and self._next[1].position <= batch.position:
            slot, entry = self._next
            self._require_order(slot, entry)
            if entry.position < batch.position:
                raise self._damage(slot, f"{_place(entry)} is not where a batch starts")
            if entry.offset < batch.header.base_offset:
                raise self._damage(
                    slot, f"{_place(entry)} leads past it, to the batch at offset {batch.header.base_offset}"
                )
            self._last, self._next = entry, next(self._entries, None)

    def at_end(self, size_bytes: int, last_offset: Offset) -> None:
        """Refuse entries beyond the segment's end."""
        if self._next is not None:
            slot, entry = self._next
            self._require_order(slot, entry)
            raise self._damage(
                slot, f"{_place(entry)} is not where a batch starts, the segment has {size_bytes} bytes"
            )
        if self._last.offset > last_offset:
            raise CorruptIndex(
                self._path, f"its last offset {self._last.offset} is above the segment's last, {last_offset}"
            )

    def _require_order(self, slot: int, entry: OffsetPosition) -> None:
        if entry.offset <= self._last.offset or entry.position <= self._last.position:
            raise self._damage(slot, f"{_place(entry)} does not rise above {_place(self._last)}")

    def _damage(self, slot: int, reason: str) -> CorruptIndex:
        return _damaged_entry(self._path, slot, OFFSET_ENTRY_SIZE, reason)


class TimeIndexCheck:
    """Compares a time index with the batches."""

    def __init__(self, index: TimeIndex) -> None:
        self._path = index.file.path
        self._entries = _numbered_entries(index.entries())
        self._last = TimestampOffset(NO_TIMESTAMP, index.base_offset)
        self._next = next(self._entries, None)
        self._largest = NO_TIMESTAMP

    def saw(self, batch: CheckedBatch) -> None:
        """Check the entries whose offset is in the batch, or before it."""
        header = batch.header
        while self._next is not None and self._next[1].offset < header.base_offset:
            slot, entry = self._next
            self._require_order(slot, entry)
            raise self._damage(slot, f"{_moment(entry)} names an offset that no batch has")
        self._largest = max(self._largest, header.max_timestamp)
        while self._next is not None and self._next[1].offset <= header.last_offset:
            slot, entry = self._next
            self._require_order(slot, entry)
            if entry.timestamp != self._largest:
                raise self._damage(
                    slot, f"{_moment(entry)}, but the largest timestamp up to there is {self._largest}"
                )
            self._last, self._next = entry, next(self._entries, None)

    def at_end(self, size_bytes: int, last_offset: Offset) -> None:
        """Refuse entries beyond the segment's end."""
        if self._next is not None:
            slot, entry = self._next
            self._require_order(slot, entry)
            raise self._damage(slot, f"{_moment(entry)} is above the segment's last offset {last_offset}")

    def _require_order(self, slot: int, entry: TimestampOffset) -> None:
        if entry.timestamp <= self._last.timestamp or entry.offset < self._last.offset:
            raise self._damage(slot, f"{_moment(entry)} does not rise above {_moment(self._last)}")

    def _damage(self, slot: int, reason: str) -> CorruptIndex:
        return _damaged_entry(self._path, slot, TIME_ENTRY_SIZE, reason)


class TransactionIndexCheck:
    """Compares the index of aborted transactions with the markers among the batches."""

    def __init__(self, index: TransactionIndex) -> None:
        self._path = index.file.path
        self._entries = _numbered_entries(index.entries())
        self._last_offset = _BEFORE_ALL
        self._next = next(self._entries, None)

    def saw(self, batch: CheckedBatch) -> None:
        """Check the entries that end in the batch, or before it."""
        while self._next is not None and self._next[1].last_offset <= batch.header.last_offset:
            slot, entry = self._next
            self._require_order(slot, entry)
            if not _aborts(batch, entry):
                raise self._damage(
                    slot, f"offset {entry.last_offset} has no abort marker of producer {entry.producer_id}"
                )
            self._last_offset, self._next = entry.last_offset, next(self._entries, None)

    def at_end(self, size_bytes: int, last_offset: Offset) -> None:
        """Refuse entries beyond the segment's end."""
        if self._next is not None:
            slot, entry = self._next
            self._require_order(slot, entry)
            reason = f"last offset {entry.last_offset} is above the segment's last offset {last_offset}"
            raise self._damage(slot, reason)

    def _require_order(self, slot: int, entry: AbortedTransaction) -> None:
        if entry.last_offset <= self._last_offset:
            reason = f"last offset {entry.last_offset} does not rise above {self._last_offset}"
            raise self._damage(slot, reason)
        if entry.first_offset > entry.last_offset:
            reason = f"first offset {entry.first_offset} is above last offset {entry.last_offset}"
            raise self._damage(slot, reason)

    def _damage(self, slot: int, reason: str) -> CorruptIndex:
        return _damaged_entry(self._path, slot, TXN_ENTRY_SIZE, reason)


def check_leader_epochs(path: str, entries: Sequence[EpochEntry]) -> None:
    """Raise CorruptCheckpoint if the epochs or the starts in a leader-epoch-checkpoint do not rise."""
    for line, (last, entry) in enumerate(pairwise(entries), start=_SECOND_ENTRY_LINE):
        if entry.epoch <= last.epoch or entry.start_offset <= last.start_offset:
            raise CorruptCheckpoint(
                path,
                line,
                f"epoch {entry.epoch} from offset {entry.start_offset} does not rise above "
                f"epoch {last.epoch} from offset {last.start_offset}",
            )


def _aborts(batch: CheckedBatch, entry: AbortedTransaction) -> bool:
    header = batch.header
    if not header.is_control or header.producer_id != entry.producer_id:
        return False
    if header.base_offset > entry.last_offset:
        return False
    try:
        marker = read_end_transaction_marker(batch.data, 0, header)
    except DecodeError:
        return False
    # Compaction may empty a marker's batch before it removes the index entry.
    return marker is None or marker.is_abort


def _numbered_entries(entries: Iterable[E]) -> Iterator[tuple[int, E]]:
    return enumerate(entries)


def _place(entry: OffsetPosition) -> str:
    return f"offset {entry.offset} at position {entry.position}"


def _moment(entry: TimestampOffset) -> str:
    return f"timestamp {entry.timestamp} at offset {entry.offset}"


def _damaged_entry(path: str, slot: int, entry_size: int, reason: str) -> CorruptIndex:
    return CorruptIndex(path, f"at byte {slot * entry_size}: entry {slot}: {reason}")
