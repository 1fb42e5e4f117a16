"""Reads the fields of all records of many payloads, one column at a time.

Positions are those in the joined payloads, which end with padding. The checks are those of
`tidelog.protocol.record`, except for the content of headers, which `header_column` checks.

Source: the layout in `tidelog.protocol.record`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import RECORD_BYTES_MIN
from tidelog.protocol.record_columns.record_starts import record_starts
from tidelog.protocol.record_columns.varints import Bytes, Numbers, read_varints

_MICROSECONDS: Final = 1000
_MILLISECONDS_MAX: Final = (2**63 - 1) // _MICROSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The joined records of whole batches in `data`, and the fields of their headers, one row per batch."""

    data: bytes
    starts: Numbers
    ends: Numbers
    counts: Numbers
    base_offsets: Numbers
    last_offset_deltas: Numbers
    base_timestamps: Numbers
    append_timestamps: Numbers
    """The timestamp of every record of a batch with `is_append_time`."""
    is_append_time: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFields:
    """The fields of records, one row per record. A length is -1 for null; `timestamps` are microseconds."""

    data: bytes
    offsets: Numbers
    timestamps: Numbers
    timestamp_types: NDArray[np.int32]
    key_starts: Numbers
    key_lengths: Numbers
    value_starts: Numbers
    value_lengths: Numbers
    header_counts: Numbers
    header_starts: Numbers
    ends: Numbers

    def __len__(self) -> int:
        return len(self.offsets)


class FieldReader:
    """Reads the fields of `payloads`. Its errors name the batch by its base offset."""

    def __init__(self, payloads: Payloads) -> None:
        self._payloads = payloads
        self._bytes: Bytes = np.frombuffer(payloads.data, dtype=np.uint8)
        self._batch = np.repeat(np.arange(len(payloads.counts)), payloads.counts)

    def read(self) -> RecordFields:
        """Return all records in the order of the log.

        Errors: DecodeError if records contradict the batch headers or their own lengths.
        """
        payloads, data = self._payloads, self._bytes
        starts = record_starts(payloads.data, payloads.starts, payloads.ends, payloads.counts)
        ends = self._record_ends(starts)
        lengths, at = read_varints(data, starts)
        self._reject_if(
            (lengths < RECORD_BYTES_MIN - 1) | (lengths != ends - at), lengths, "a record of length"
        )
        timestamp_deltas, at = read_varints(data, at + 1)
        offset_deltas, at = self._number(at, ends)
        key_lengths, key_starts = self._number(at, ends)
        at = self._positions_after(key_lengths, key_starts, ends)
        value_lengths, value_starts = self._number(at, ends)
        at = self._positions_after(value_lengths, value_starts, ends)
        header_counts, header_starts = self._number(at, ends)
        self._check_headers(header_counts, header_starts, ends)
        self._check_offsets(offset_deltas)
        return RecordFields(
            data=payloads.data,
            offsets=payloads.base_offsets[self._batch] + offset_deltas,
            timestamps=self._timestamps(timestamp_deltas),
            timestamp_types=payloads.is_append_time[self._batch].astype(np.int32),
            key_starts=key_starts,
            key_lengths=key_lengths,
            value_starts=value_starts,
            value_lengths=value_lengths,
            header_counts=header_counts,
            header_starts=header_starts,
            ends=ends,
        )

    def _record_ends(self, starts: Numbers) -> Numbers:
        """Return the end of each record: the start of the next one, or the end of the payload."""
        payloads = self._payloads
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        filled = payloads.counts > 0
        ends[np.cumsum(payloads.counts)[filled] - 1] = payloads.ends[filled]
        empty = np.flatnonzero(~filled & (payloads.ends > payloads.starts))
        if empty.size:
            raise DecodeError(
                f"the batch at offset {payloads.base_offsets[empty[0]]} has bytes but no records"
            )
        return ends

    def _number(self, at: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
        self._reject_if(at >= ends, at, "a record that ends too early, at byte")
        return read_varints(self._bytes, at)

    def _positions_after(self, lengths: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
        """Return the positions after a key or value, and reject lengths beyond the end of a record."""
        self._reject_if((lengths < -1) | (lengths > ends - starts), lengths, "a key or value of length")
        return starts + np.maximum(lengths, 0)

    def _check_headers(self, counts: Numbers, starts: Numbers, ends: Numbers) -> None:
        # A header takes at least two bytes.
        self._reject_if((counts < 0) | (counts > (ends - starts) >> 1), counts, "a count of headers of")
        self._reject_if((counts == 0) & (starts != ends), ends - starts, "bytes after its last field:")

    def _check_offsets(self, deltas: Numbers) -> None:
        previous = np.empty_like(deltas)
        previous[1:] = deltas[:-1]
        counts = self._payloads.counts
        previous[(np.cumsum(counts) - counts)[counts > 0]] = -1
        self._reject_if(deltas <= previous, deltas, "an offset that does not increase, delta")
        last = self._payloads.last_offset_deltas[self._batch]
        self._reject_if(deltas > last, deltas, "an offset beyond its last, delta")

    def _timestamps(self, deltas: Numbers) -> Numbers:
        payloads = self._payloads
        base = payloads.base_timestamps[self._batch]
        timestamps = base + deltas
        overflows = ((base ^ timestamps) & (deltas ^ timestamps)) < 0
        append_time = payloads.is_append_time[self._batch]
        timestamps = np.where(append_time, payloads.append_timestamps[self._batch], timestamps)
        self._reject_if(overflows & ~append_time, deltas, "a timestamp over 64 bits, delta")
        # Spark stores microseconds and also rejects these.
        beyond = (timestamps > _MILLISECONDS_MAX) | (timestamps < -_MILLISECONDS_MAX)
        self._reject_if(beyond, timestamps, "a timestamp beyond Spark's range:")
        return timestamps * _MICROSECONDS

    def _reject_if(self, is_bad: NDArray[np.bool_], values: Numbers, what: str) -> None:
        if is_bad.any():
            index = int(np.argmax(is_bad))
            base_offset = self._payloads.base_offsets[self._batch[index]]
            raise DecodeError(f"the batch at offset {base_offset} has {what} {values[index]}")
