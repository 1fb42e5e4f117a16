"""Builds batches without the records that compaction has removed, and those with a new delete horizon.

The bytes of the remaining records are copied in runs. Where the delete horizon replaces the base timestamp,
the beginning of each record, with its length and timestamp delta, is encoded again for all records at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import (
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    write_header,
)
from tidelog.protocol.compression import BytesLike, Compression, compress
from tidelog.protocol.record_columns.header_columns import HeaderColumns, header_at, numbers_of
from tidelog.protocol.record_columns.key_columns import KeyColumns
from tidelog.protocol.record_columns.varints import Numbers, written_varints

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
HEADER_SPACE: Final = bytes(BATCH_OVERHEAD)


class RetainedBatch(NamedTuple):
    """A batch that is kept, as it is to be written."""

    header: BatchHeader
    data: BytesLike


class Rebuilding:
    """The batches of one set of columns: `survives` by record; `counts` and `needs_horizon` by batch.

    `counts` are those of the surviving records.
    """

    def __init__(
        self,
        headers: HeaderColumns,
        columns: KeyColumns,
        survives: NDArray[np.bool_],
        counts: Numbers,
        needs_horizon: NDArray[np.bool_],
        horizon_ms: int,
    ) -> None:
        self._headers = headers
        self._columns = columns
        self._survives = survives
        self._counts = counts
        self._needs_horizon = needs_horizon
        self._horizon_ms = horizon_ms
        self._max_timestamps = _max_timestamps(headers, columns, survives, counts)
        run_starts, run_ends, self._first_runs = _runs(columns, survives)
        run_sizes = np.concatenate(([0], np.cumsum(run_ends - run_starts)))
        self._sizes: Numbers = np.diff(run_sizes[self._first_runs])
        data = memoryview(columns.data)
        bounds = zip(run_starts.tolist(), run_ends.tolist(), strict=True)
        self._runs = [data[start:end] for start, end in bounds]
        self._run_bounds: list[int] = self._first_runs.tolist()

    def batch(self, index: int) -> RetainedBatch:
        """Return the batch number `index` with its surviving records."""
        header, count = header_at(self._headers, index), int(self._counts[index])
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if self._needs_horizon[index]:
            parts = self._parts_with_horizon(index, header)
            base_timestamp, attributes = self._horizon_ms, attributes | ATTRIBUTE_DELETE_HORIZON
        else:
            parts = self.runs(index)
        if header.compression is not Compression.NONE:
            parts = [memoryview(compress(header.compression, b"".join(parts)))]
        data = bytearray().join([HEADER_SPACE, *parts])
        header = header._replace(
            batch_length=len(data) - LOG_OVERHEAD,
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=int(self._max_timestamps[index]),
            record_count=count,
        )
        write_header(data, 0, header)
        return RetainedBatch(header, data)

    def runs(self, index: int) -> list[memoryview]:
        """Return the surviving records of batch number `index`; adjacent records are one run."""
        return self._runs[self._run_bounds[index] : self._run_bounds[index + 1]]

    def headers(self, indexes: Numbers) -> HeaderColumns:
        """Return the headers of these batches with the surviving records in `runs`.

        The batches must not be compressed, nor get a delete horizon. Their checksums are those from before.
        """
        headers = self._headers[indexes]
        headers["batch_length"] = self._sizes[indexes] + (BATCH_OVERHEAD - LOG_OVERHEAD)
        headers["max_timestamp"] = self._max_timestamps[indexes]
        headers["record_count"] = self._counts[indexes]
        return headers

    def _parts_with_horizon(self, index: int, header: BatchHeader) -> list[memoryview]:
        """Return the surviving records, with deltas from the delete horizon to the same timestamps."""
        columns, data = self._columns, memoryview(self._columns.data)
        first = int(columns.first_rows[index])
        rows = first + np.flatnonzero(self._survives[first : first + header.record_count])
        by_ms = header.base_timestamp - self._horizon_ms
        # In Python's integers: the sum is limited to 64 bits, and the base timestamp may have any value.
        deltas = [
            min(max(delta + by_ms, _INT64_MIN), _INT64_MAX)
            for delta in columns.timestamp_deltas[rows].tolist()
        ]
        starts, ends = columns.timestamp_ends[rows], columns.ends[rows]
        heads, head_ends = self._heads(rows, np.array(deltas, dtype=np.int64), ends - starts)
        parts: list[memoryview] = []
        head_start = 0
        for head_end, start, end in zip(head_ends.tolist(), starts.tolist(), ends.tolist(), strict=True):
            parts += (heads[head_start:head_end], data[start:end])
            head_start = head_end
        return parts

    def _heads(self, rows: Numbers, deltas: Numbers, rest_sizes: Numbers) -> tuple[memoryview, Numbers]:
        """Return the joined beginnings of records up to their timestamp deltas, and the end of each."""
        delta_bytes, is_delta = written_varints(deltas)
        length_bytes, is_length = written_varints(1 + is_delta.sum(axis=1) + rest_sizes)
        data = np.frombuffer(self._columns.data, dtype=np.uint8)
        attributes = data[self._columns.timestamp_starts[rows] - 1].reshape(-1, 1)
        is_used = np.hstack([is_length, np.ones_like(attributes, dtype=np.bool_), is_delta])
        joined = np.hstack([length_bytes, attributes, delta_bytes])[is_used]
        return memoryview(joined.tobytes()), np.cumsum(is_used.sum(axis=1))


def _max_timestamps(
    headers: HeaderColumns, columns: KeyColumns, survives: NDArray[np.bool_], counts: Numbers
) -> Numbers:
    """Return the new largest timestamp of each batch: that of its surviving records, if some are removed."""
    before = numbers_of(headers, "max_timestamp")
    deltas = np.where(survives, columns.timestamp_deltas, _INT64_MIN)
    newest_deltas = np.maximum.reduceat(deltas, columns.first_rows)
    newest = _saturated_sum(numbers_of(headers, "base_timestamp"), newest_deltas)
    is_kept = (counts == headers["record_count"]) | (headers["attributes"] & ATTRIBUTE_LOG_APPEND_TIME != 0)
    return np.where(is_kept, before, np.minimum(before, np.maximum(newest, NO_TIMESTAMP)))


def _saturated_sum(first: Numbers, second: Numbers) -> Numbers:
    """Return sums within 64 bits: the base timestamp of a batch that was never read may have any value."""
    total = first + second
    has_overflowed = ((first ^ total) & (second ^ total)) < 0
    return np.where(has_overflowed, np.where(first < 0, _INT64_MIN, _INT64_MAX), total)


def _runs(columns: KeyColumns, survives: NDArray[np.bool_]) -> tuple[Numbers, Numbers, Numbers]:
    """Return where each run of adjacent surviving records of a batch starts and ends in the data.

    The third result has the index of the first run of each batch, and the number of runs.
    """
    continues = np.zeros_like(survives)
    continues[1:] = survives[:-1]
    continues[columns.first_rows] = False
    is_first = survives & ~continues
    is_last = np.ones_like(survives)
    is_last[:-1] = ~survives[1:]
    is_last[columns.first_rows[1:] - 1] = True
    is_last &= survives
    run_counts = np.add.reduceat(is_first, columns.first_rows, dtype=np.int64)
    return columns.starts[is_first], columns.ends[is_last], np.concatenate(([0], np.cumsum(run_counts)))
