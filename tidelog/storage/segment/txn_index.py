"""The transaction index of one segment (`.txnindex`): the aborted transactions that end in it.

| bytes | field |
|---|---|
| 2 | version, int16, 0 |
| 8 | producer id |
| 8 | first offset of the transaction |
| 8 | last offset: that of its abort marker |
| 8 | last stable offset when the marker was written |

All big-endian; last offsets strictly increase. The file exists only when a transaction was aborted
(pass a `tidelog.storage.disk.on_demand_file.OnDemandFile`).
Source: org.apache.kafka.storage.internals.log.TransactionIndex and AbortedTxn of Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.protocol.ids import Offset, ProducerId
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.disk.files import File
from tidelog.storage.segment.segment_index import SegmentIndex

ENTRY_SIZE: Final = 34
VERSION: Final = 0

_ENTRY: Final = struct.Struct(">hqqqq")
_LAST_OFFSET: Final = struct.Struct(">q")
_LAST_OFFSET_AT: Final = 18
_UNBOUNDED: Final = 2**62
_BLOCK_ENTRIES: Final = 128


class AbortedTransaction(NamedTuple):
    """A transaction of `producer_id` from `first_offset` to its abort marker at `last_offset` (inclusive)."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class AbortedTransactions(NamedTuple):
    """What a fetch range needs from one index; `complete` means that later segments are not needed."""

    transactions: list[AbortedTransaction]
    complete: bool


class TransactionIndex(SegmentIndex):
    """The aborted transactions whose markers are in one segment.

    Invariant: `last_offset` is that of the last entry, None without entries.
    Errors: CorruptIndex for another version or a torn file.
    """

    __slots__ = ("last_offset",)

    last_offset: Offset | None

    def __init__(self, file: File, base_offset: Offset) -> None:
        super().__init__(file, base_offset, ENTRY_SIZE, _UNBOUNDED)

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an entry; its last offset must be above the previous one's."""
        assert self.last_offset is None or transaction.last_offset > self.last_offset, (
            f"{self.file.path}: last offset {transaction.last_offset} is not above {self.last_offset}"
        )
        self._collect(_ENTRY.pack(VERSION, *transaction))
        self.last_offset = transaction.last_offset

    def collect(self, fetch_offset: Offset, upper_bound: Offset) -> AbortedTransactions:
        """Return the transactions that overlap the offsets [`fetch_offset`, `upper_bound`)."""
        found: list[AbortedTransaction] = []
        for transaction in self._entries_from(self._first_slot_at_or_above(fetch_offset)):
            if transaction.first_offset < upper_bound:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound:
                return AbortedTransactions(found, True)
        return AbortedTransactions(found, False)

    def entries(self) -> Iterator[AbortedTransaction]:
        """Yield every entry in order."""
        return self._entries_from(0)

    def truncate_to(self, offset: Offset) -> None:
        """Remove the transactions that end at `offset` or above."""
        if self.last_offset is None or self.last_offset < offset:
            return
        self._cut(self._first_slot_at_or_above(offset))

    def sanity_check(self) -> None:
        """Raise CorruptIndex if the size or any entry is impossible."""
        self._entries.require_whole_entries()
        for transaction in self.entries():
            if transaction.last_offset < self.base_offset:
                raise CorruptIndex(
                    self.file.path, f"{transaction} ends below the base offset {self.base_offset}"
                )

    def _first_slot_at_or_above(self, offset: Offset) -> int:
        return self._entries.first_slot_above(_LAST_OFFSET, _LAST_OFFSET_AT, offset - 1)

    def _entries_from(self, slot: int) -> Iterator[AbortedTransaction]:
        while slot < self._entries.count:
            count = min(_BLOCK_ENTRIES, self._entries.count - slot)
            for version, *values in _ENTRY.iter_unpack(self._entries.block(slot, count)):
                if version != VERSION:
                    raise CorruptIndex(self.file.path, f"an entry has version {version}, expected {VERSION}")
                yield AbortedTransaction(*values)
            slot += count

    def _note_last(self) -> None:
        count = self._entries.count
        self.last_offset = (
            _LAST_OFFSET.unpack_from(self._entries.entry(count - 1), _LAST_OFFSET_AT)[0] if count else None
        )
