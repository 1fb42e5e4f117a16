"""Builds batches without the records that compaction has removed, and those with a new delete horizon.

The bytes of the remaining records are copied in runs. Where the delete horizon replaces the base timestamp,
the beginning of each record, with its length and timestamp delta, is encoded again for all records at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import (
    ATTRIBUTE_DELETE_HORIZON,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    write_header,
)
from tidelog.protocol.compression import BytesLike, Compression, compress
from tidelog.protocol.record_columns.key_columns import KeyColumns
from tidelog.protocol.record_columns.varints import Numbers, written_varints

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_HEADER_SPACE: Final = bytes(BATCH_OVERHEAD)


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
        headers: Sequence[BatchHeader],
        columns: KeyColumns,
        survives: NDArray[np.bool_],
        counts: Numbers,
        needs_horizon: NDArray[np.bool_],
        horizon_ms: int,
    ) -> None:
        self._headers = headers
        self._columns = columns
        self._survives = survives
        self._counts = counts.tolist()
        self._needs_horizon = needs_horizon.tolist()
        self._horizon_ms = horizon_ms
        self._data = memoryview(columns.data)
        self._newest = _newest_deltas(columns, survives)
        run_starts, run_ends, self._first_runs = _runs(columns, survives)
        self._run_starts, self._run_ends = run_starts.tolist(), run_ends.tolist()

    def batch(self, index: int) -> RetainedBatch:
        """Return the batch number `index` with its surviving records."""
        header, count = self._headers[index], self._counts[index]
        max_timestamp = header.max_timestamp
        if not header.is_log_append_time and count < header.record_count:
            newest = header.base_timestamp + self._newest[index]
            # The base timestamp of a batch that was never read may have any value.
            max_timestamp = min(max_timestamp, max(newest, NO_TIMESTAMP))
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if self._needs_horizon[index]:
            parts = self._parts_with_horizon(index)
            base_timestamp, attributes = self._horizon_ms, attributes | ATTRIBUTE_DELETE_HORIZON
        else:
            first, end = self._first_runs[index], self._first_runs[index + 1]
            bounds = zip(self._run_starts[first:end], self._run_ends[first:end], strict=True)
            parts = [self._data[start:stop] for start, stop in bounds]
        if header.compression is not Compression.NONE:
            parts = [memoryview(compress(header.compression, b"".join(parts)))]
        data = bytearray().join([_HEADER_SPACE, *parts])
        # NamedTuple._replace takes longer than the rest of this function.
        header = BatchHeader(
            header.base_offset,
            len(data) - LOG_OVERHEAD,
            header.partition_leader_epoch,
            header.magic,
            header.crc,
            attributes,
            header.last_offset_delta,
            base_timestamp,
            max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
        write_header(data, 0, header)
        return RetainedBatch(header, data)

    def _parts_with_horizon(self, index: int) -> list[memoryview]:
        """Return the surviving records, with deltas from the delete horizon to the same timestamps."""
        columns, header = self._columns, self._headers[index]
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
            parts += (heads[head_start:head_end], self._data[start:end])
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


def _newest_deltas(columns: KeyColumns, survives: NDArray[np.bool_]) -> list[int]:
    """Return the largest timestamp delta of the surviving records of each batch."""
    deltas = np.where(survives, columns.timestamp_deltas, _INT64_MIN)
    return list(np.maximum.reduceat(deltas, columns.first_rows).tolist())


def _runs(columns: KeyColumns, survives: NDArray[np.bool_]) -> tuple[Numbers, Numbers, list[int]]:
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
    return columns.starts[is_first], columns.ends[is_last], [0, *np.cumsum(run_counts).tolist()]
