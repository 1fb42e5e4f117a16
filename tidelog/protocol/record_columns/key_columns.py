"""Reads what compaction needs of the records of many batches: positions, keys, timestamps and tombstones.

Values and headers are skipped and not checked, so the bytes of retained records can be copied unchanged.

Source: org.apache.kafka.common.record.DefaultRecord of Apache Kafka (the layout is in
`tidelog.protocol.record`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.compression import BytesLike
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import RECORD_BYTES_MIN
from tidelog.protocol.record_columns.record_starts import record_starts
from tidelog.protocol.record_columns.varints import PADDING, Numbers, read_varints

_OFFSET_DELTA_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumns:
    """The records of several batches in `data`, one row per record in the order of the log.

    `data` ends with padding. A key length below 0 means that the key is null.
    """

    data: bytes
    first_rows: Numbers
    """The row of the first record of each batch."""
    batch: Numbers
    """The index of the batch of each record."""
    starts: Numbers
    ends: Numbers
    timestamp_deltas: Numbers
    timestamp_starts: Numbers
    timestamp_ends: Numbers
    offsets: Numbers
    key_starts: Numbers
    key_lengths: Numbers
    is_tombstone: NDArray[np.bool_]


def read_key_columns(headers: Sequence[BatchHeader], payloads: Sequence[BytesLike]) -> KeyColumns:
    """Return the records of batches that have at least one record; `payloads` are their expanded records.

    Errors: DecodeError, which names the batch, if its records do not fill its payload exactly, or if their
    offsets do not increase.
    """
    sizes = np.fromiter(map(len, payloads), dtype=np.int64, count=len(payloads))
    counts = np.array([header.record_count for header in headers], dtype=np.int64)
    payload_ends = np.cumsum(sizes)
    data = b"".join([*payloads, PADDING])
    return _Reader(headers, data, payload_ends - sizes, payload_ends, counts).read()


class _Reader:
    def __init__(
        self,
        headers: Sequence[BatchHeader],
        data: bytes,
        payload_starts: Numbers,
        payload_ends: Numbers,
        counts: Numbers,
    ) -> None:
        self._headers = headers
        self._data = data
        self._payload_starts = payload_starts
        self._payload_ends = payload_ends
        self._counts = counts
        self._first_rows: Numbers = np.cumsum(counts) - counts
        self._batch: Numbers = np.repeat(np.arange(len(counts)), counts)

    def read(self) -> KeyColumns:
        data = np.frombuffer(self._data, dtype=np.uint8)
        starts = record_starts(self._data, self._payload_starts, self._payload_ends, self._counts)
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[self._first_rows + self._counts - 1] = self._payload_ends
        lengths, bodies = read_varints(data, starts)
        is_bad = (lengths < RECORD_BYTES_MIN - 1) | (lengths != ends - bodies)
        self._reject_if(is_bad, "a record whose length is wrong")
        timestamp_starts = bodies + 1
        timestamp_deltas, timestamp_ends = read_varints(data, timestamp_starts)
        offset_deltas, after = read_varints(data, timestamp_ends)
        key_lengths, key_starts = read_varints(data, after)
        # The length of the value follows the key, so the key must end before the record.
        is_bad = key_lengths >= ends - key_starts
        self._reject_if(is_bad | (key_starts >= ends), "a record that is shorter than its key")
        self._check_offsets(offset_deltas)
        base_offsets = np.array([header.base_offset for header in self._headers], dtype=np.int64)
        return KeyColumns(
            data=self._data,
            first_rows=self._first_rows,
            batch=self._batch,
            starts=starts,
            ends=ends,
            timestamp_deltas=timestamp_deltas,
            timestamp_starts=timestamp_starts,
            timestamp_ends=timestamp_ends,
            offsets=base_offsets[self._batch] + offset_deltas,
            key_starts=key_starts,
            key_lengths=key_lengths,
            # The lowest bit of a zigzag varint is its sign.
            is_tombstone=(data[key_starts + np.maximum(key_lengths, 0)] & 1).astype(np.bool_),
        )

    def _check_offsets(self, deltas: Numbers) -> None:
        previous = np.empty_like(deltas)
        previous[1:] = deltas[:-1]
        previous[self._first_rows] = -1
        is_bad = (deltas <= previous) | (deltas > _OFFSET_DELTA_MAX)
        self._reject_if(is_bad, "an offset that does not increase, or too much")

    def _reject_if(self, is_bad: NDArray[np.bool_], what: str) -> None:
        if is_bad.any():
            row = int(np.argmax(is_bad))
            index = int(self._batch[row])
            number = row - int(self._first_rows[index])
            base_offset = self._headers[index].base_offset
            raise DecodeError(f"the batch at offset {base_offset} has {what}: record {number}")
