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

Headers and records are read and decided about for many batches at once, markers and batches of transactions
one by one.

Source: Cleaner, MemoryRecords.filterTo of Apache Kafka 4.3; KIP-98, KIP-534.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import (
    ATTRIBUTE_COMPRESSION_MASK,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_TRANSACTIONAL,
    BatchHeader,
    empty_batch,
    read_header,
)
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.protocol.record_columns.header_columns import HeaderColumns, header_at
from tidelog.protocol.record_columns.key_columns import KeyColumns, read_key_columns
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.compaction.batch_window import BatchWindow
from tidelog.storage.compaction.cleaned_transactions import CleanedTransactions
from tidelog.storage.compaction.expansion import WindowPart, expanded_parts
from tidelog.storage.compaction.joining import Joining, RetainedBatches
from tidelog.storage.compaction.last_records import LastRecord
from tidelog.storage.compaction.latest_records import LatestRecords
from tidelog.storage.compaction.rebuilding import Rebuilding, RetainedBatch
from tidelog.storage.segment.txn_index import AbortedTransaction

_TIMESTAMP_MAX: Final = 2**63 - 1


class Treatment(IntEnum):
    """The treatment of a batch, as far as its header determines it; its records are read from MARK on."""

    KEEP = auto()
    """It is kept unchanged."""
    EMPTY = auto()
    """It loses all records, and is removed unless it is needed empty."""
    MARK = auto()
    """It is a marker that gets a delete horizon."""
    FILTER = auto()
    """Its records decide."""


_KEEP, _EMPTY, _MARK, _FILTER = Treatment


class BatchFilter:
    """Decides about the batches of one group of segments, in order.

    `end_offset` is the upper bound of the compacted range; `keep_aborted` is called with the entries of the
    new transaction index.
    Errors: DecodeError for records that cannot be read.
    """

    def __init__(
        self,
        latest: LatestRecords,
        transactions: CleanedTransactions,
        last_records: Mapping[ProducerId, LastRecord],
        keep_aborted: Callable[[AbortedTransaction], None],
        *,
        end_offset: Offset,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._latest = latest
        self._transactions = transactions
        self._last_records = last_records
        self._keep_aborted = keep_aborted
        self._end_offset = end_offset
        self._now_ms = now_ms
        # With delete.retention.ms near its maximum, tombstones are kept for ever.
        self._new_horizon_ms = min(now_ms + delete_retention_ms, _TIMESTAMP_MAX)

    def filtered(self, window: BatchWindow) -> Iterator[RetainedBatches]:
        """Yield the retained batches of the next window in the order of the log, in one or more parts."""
        treatments = self._classify(window)
        for part in expanded_parts(window, treatments >= _MARK):
            joining = Joining(window, part.first, part.end)
            is_empty = treatments[part.first : part.end] == _EMPTY
            for index in (part.first + np.flatnonzero(is_empty)).tolist():
                joining.replace(index, self._emptied(window.header(index)))
            if part.payloads is not None:
                is_marker = treatments[part.indexes] == _MARK
                self._filter(window.headers[part.indexes], part, is_marker, joining)
            yield joining.joined()

    # -- by header

    def _classify(self, window: BatchWindow) -> NDArray[np.int8]:
        headers = window.headers
        treatments = np.full(len(headers), _FILTER, dtype=np.int8)
        treatments[headers["base_offset"] >= self._latest.end_offset] = _KEEP
        treatments[headers["record_count"] == 0] = _EMPTY
        is_special = headers["attributes"] & (ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL) != 0
        for index in np.flatnonzero(is_special).tolist():
            header = window.header(index)
            if header.is_control:
                treatments[index] = self._classify_marker(header, window.batch(index))
            elif self._transactions.saw_data(header):
                treatments[index] = _EMPTY
        return treatments

    def _classify_marker(self, header: BatchHeader, batch: memoryview) -> Treatment:
        if not header.has_producer_id:
            return Treatment.KEEP  # not a marker of a transaction
        marker = read_end_transaction_marker(batch, 0, header) if header.record_count else None
        is_needless = self._transactions.saw_marker(header, marker, self._keep_aborted)
        horizon_ms = delete_horizon_ms(header)
        if not header.record_count or (is_needless and horizon_ms is not None and horizon_ms <= self._now_ms):
            return Treatment.EMPTY
        return Treatment.KEEP if not is_needless or horizon_ms is not None else Treatment.MARK

    # -- by records

    def _filter(
        self, headers: HeaderColumns, part: WindowPart, is_marker: NDArray[np.bool_], joining: Joining
    ) -> None:
        """Decide about the batches of `part`, which have `headers`, by their records."""
        assert part.payloads is not None
        columns = read_key_columns(part.payloads)
        survives = self._latest.among(columns) | is_marker[columns.batch]
        has_horizon = headers["attributes"] & ATTRIBUTE_DELETE_HORIZON != 0
        has_expired = has_horizon & (headers["base_timestamp"] <= self._now_ms)
        survives &= ~(columns.is_tombstone & has_expired[columns.batch])
        tombstone_counts = _count_by_batch(survives & columns.is_tombstone, columns)
        needs_horizon = (~has_horizon & (tombstone_counts > 0)) | is_marker
        counts = _count_by_batch(survives, columns)
        rebuilding = Rebuilding(headers, columns, survives, counts, needs_horizon, self._new_horizon_ms)
        is_empty, is_changed = counts == 0, (counts < part.payloads.counts) | needs_horizon
        is_compressed = headers["attributes"] & ATTRIBUTE_COMPRESSION_MASK != 0
        is_single = is_changed & ~is_empty & (is_compressed | needs_horizon)
        for number in np.flatnonzero(is_empty).tolist():
            joining.replace(int(part.indexes[number]), self._emptied(header_at(headers, number)))
        for number in np.flatnonzero(is_single).tolist():
            joining.replace(int(part.indexes[number]), rebuilding.batch(number))
        numbers = np.flatnonzero(is_changed & ~is_empty & ~is_single)
        joining.rebuild(part.indexes[numbers], rebuilding, numbers)

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
