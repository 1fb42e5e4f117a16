"""Reads what compaction needs of the records of many batches: positions, keys, timestamps and tombstones.

Values and headers are skipped and not checked, so the bytes of retained records can be copied unchanged.

Source: org.apache.kafka.common.record.DefaultRecord of Apache Kafka (the layout is in
`tidelog.protocol.record`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.base.dataclass import dataclass
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


class Payloads(NamedTuple):
    """The expanded records of several batches in `data`, which ends with padding; each has at least one."""

    data: bytes
    starts: Numbers
    ends: Numbers
    counts: Numbers
    """The numbers of records according to the headers."""
    base_offsets: Numbers

    @classmethod
    def joined(cls, parts: Sequence[BytesLike], counts: Numbers, base_offsets: Numbers) -> Payloads:
        """Return payloads that are copied into one buffer."""
        ends: Numbers = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
        data = b"".join([*parts, PADDING])
        return cls(data, np.concatenate(([0], ends[:-1])), ends, counts, base_offsets)


def read_key_columns(payloads: Payloads) -> KeyColumns:
    """Return the records of several batches.

    Errors: DecodeError, which names the batch, if its records do not fill its payload exactly, or if their
    offsets do not increase.
    """
    return _Reader(payloads).read()


class _Reader:
    def __init__(self, payloads: Payloads) -> None:
        self._payloads = payloads
        counts = payloads.counts
        self._first_rows: Numbers = np.cumsum(counts) - counts
        self._batch: Numbers = np.repeat(np.arange(len(counts)), counts)

    def read(self) -> KeyColumns:
        payloads = self._payloads
        data = np.frombuffer(payloads.data, dtype=np.uint8)
        starts = record_starts(payloads.data, payloads.starts, payloads.ends, payloads.counts)
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[self._first_rows + payloads.counts - 1] = payloads.ends
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
        return KeyColumns(
            data=payloads.data,
            first_rows=self._first_rows,
            batch=self._batch,
            starts=starts,
            ends=ends,
            timestamp_deltas=timestamp_deltas,
            timestamp_starts=timestamp_starts,
            timestamp_ends=timestamp_ends,
            offsets=payloads.base_offsets[self._batch] + offset_deltas,
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
            base_offset = self._payloads.base_offsets[index]
            raise DecodeError(f"the batch at offset {base_offset} has {what}: record {number}")
