"""The effect of compaction on each batch: it is kept, loses records, is emptied, or is removed.

| batch | result |
|---|---|
| above the offsets in the offset map | is kept |
| of an aborted transaction | is removed |
| marker | is kept while records of its transaction were found; then until its delete horizon |
| data | keeps the latest record of each key; tombstones are kept until the batch's delete horizon |

A batch is emptied instead of removed if it is the last of an active producer, whose sequence must be kept, or
the last of the compacted range, so that readers reach its end. A batch keeps its offsets, epochs, producer
and codec, and its records their deltas. Only the delete horizon (KIP-534), which replaces the base timestamp,
changes the deltas of timestamps.

`classify` reads only headers and markers, batch by batch. `retained` then decides about the records of many
batches at once.

Source: Cleaner, MemoryRecords.filterTo of Apache Kafka 4.3; KIP-98, KIP-534.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import ATTRIBUTE_DELETE_HORIZON, BatchHeader, empty_batch, read_header
from tidelog.protocol.compression import BytesLike
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.protocol.record_columns.key_columns import KeyColumns, read_key_columns
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.compaction.cleaned_transactions import CleanedTransactions
from tidelog.storage.compaction.last_records import LastRecord
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.rebuilding import Rebuilding, RetainedBatch
from tidelog.storage.segment.batch_scan import CheckedBatch
from tidelog.storage.segment.txn_index import AbortedTransaction

_TIMESTAMP_MAX: Final = 2**63 - 1


class Treatment(Enum):
    """The treatment of a batch, as far as its header determines it."""

    KEEP = auto()
    """It is kept unchanged."""
    EMPTY = auto()
    """It loses all records, and is removed unless it is needed empty."""
    MARK = auto()
    """It is a marker that gets a delete horizon."""
    FILTER = auto()
    """Its records decide."""

    @property
    def needs_records(self) -> bool:
        """Whether the records of the batch must be read."""
        return self is _FILTER or self is _MARK


# Locals of the module, because each batch is compared with them.
_FILTER, _MARK, _KEEP, _EMPTY = Treatment.FILTER, Treatment.MARK, Treatment.KEEP, Treatment.EMPTY


class ClassifiedBatch(NamedTuple):
    """A batch, its treatment, and its expanded records if the treatment needs them."""

    batch: CheckedBatch
    treatment: Treatment
    records: BytesLike = b""


class BatchFilter:
    """Decides about the batches of one group of segments, in order.

    `end_offset` is the upper bound of the compacted range; `keep_aborted` is called with the entries of the
    new transaction index.
    Errors: DecodeError for records that cannot be read.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[ProducerId, LastRecord],
        keep_aborted: Callable[[AbortedTransaction], None],
        *,
        end_offset: Offset,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._keep_aborted = keep_aborted
        self._end_offset = end_offset
        self._now_ms = now_ms
        # With delete.retention.ms near its maximum, tombstones are kept for ever.
        self._new_horizon_ms = min(now_ms + delete_retention_ms, _TIMESTAMP_MAX)

    # -- by header

    def classify(self, batch: CheckedBatch) -> Treatment:
        """Return the treatment of the next batch in the order of the log."""
        header = batch.header
        if header.is_control:
            return self._classify_marker(batch)
        is_aborted = header.is_transactional and self._transactions.saw_data(header)
        if is_aborted or not header.record_count:
            return _EMPTY
        return _KEEP if header.base_offset > self._offsets.latest_offset else _FILTER

    def _classify_marker(self, batch: CheckedBatch) -> Treatment:
        header = batch.header
        if not header.has_producer_id:
            return Treatment.KEEP  # not a marker of a transaction
        marker = read_end_transaction_marker(batch.data, 0, header) if header.record_count else None
        is_needless = self._transactions.saw_marker(header, marker, self._keep_aborted)
        horizon_ms = delete_horizon_ms(header)
        if not header.record_count or (is_needless and horizon_ms is not None and horizon_ms <= self._now_ms):
            return Treatment.EMPTY
        return Treatment.KEEP if not is_needless or horizon_ms is not None else Treatment.MARK

    # -- by records

    def retained(self, batches: Sequence[ClassifiedBatch]) -> list[RetainedBatch]:
        """Return the batches that are kept, as they are to be written."""
        decided = iter(self._filtered([one for one in batches if one.treatment.needs_records]))
        retained = []
        for batch, treatment, _ in batches:
            result: RetainedBatch | None
            if treatment is _KEEP:
                result = RetainedBatch(batch.header, batch.data)
            elif treatment is _EMPTY:
                result = self._emptied(batch.header)
            else:
                result = next(decided)
            if result is not None:
                retained.append(result)
        return retained

    def _filtered(self, batches: list[ClassifiedBatch]) -> list[RetainedBatch | None]:
        if not batches:
            return []
        headers = [one.batch.header for one in batches]
        columns = read_key_columns(headers, [one.records for one in batches])
        is_marker = np.array([one.treatment is _MARK for one in batches])
        survives = self._survivors(columns) | is_marker[columns.batch]
        has_horizon = np.array([header.attributes for header in headers]) & ATTRIBUTE_DELETE_HORIZON != 0
        base_timestamps = np.array([header.base_timestamp for header in headers])
        has_expired = has_horizon & (base_timestamps <= self._now_ms)
        survives &= ~(columns.is_tombstone & has_expired[columns.batch])
        tombstone_counts = _count_by_batch(survives & columns.is_tombstone, columns)
        needs_horizon = (~has_horizon & (tombstone_counts > 0)) | is_marker
        counts = _count_by_batch(survives, columns)
        rebuilding = Rebuilding(headers, columns, survives, counts, needs_horizon, self._new_horizon_ms)
        results: list[RetainedBatch | None] = []
        for index, (count, marks) in enumerate(zip(counts.tolist(), needs_horizon.tolist(), strict=True)):
            header = headers[index]
            if not count:
                results.append(self._emptied(header))
            elif marks or count < header.record_count:
                results.append(rebuilding.batch(index))
            else:
                results.append(RetainedBatch(header, batches[index].batch.data))
        return results

    def _survivors(self, columns: KeyColumns) -> NDArray[np.bool_]:
        """Return for each record whether it is the latest of its key; False without a key."""
        has_key = columns.key_lengths >= 0
        lengths = np.maximum(columns.key_lengths, 0)
        hashes = self._offsets.hasher.hashes(columns.data, columns.key_starts, lengths)
        return np.asarray(has_key & (self._offsets.latest(hashes) <= columns.offsets))

    # -- batches without records

    def _emptied(self, header: BatchHeader) -> RetainedBatch | None:
        return emptied(header) if self._is_needed_empty(header) else None

    def _is_needed_empty(self, header: BatchHeader) -> bool:
        if header.next_offset == self._end_offset:
            return True
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.last_offset is not None:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch


def _count_by_batch(is_counted: NDArray[np.bool_], columns: KeyColumns) -> NDArray[np.int64]:
    return np.add.reduceat(is_counted, columns.first_rows, dtype=np.int64)


def emptied(header: BatchHeader) -> RetainedBatch:
    """Return a batch without records, which keeps the offsets and the producer's state."""
    data = empty_batch(header)
    return RetainedBatch(read_header(data), data)


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """Return when tombstones or the marker of the batch may be removed; None before the first compaction."""
    return header.base_timestamp if header.attributes & ATTRIBUTE_DELETE_HORIZON else None
