"""A fast read of the timestamps, the offsets and the null keys of the records of a batch.

`RecordSkimmer` reads the decompressed records of a batch in steps, independently of their number and size.
It creates no objects for records. It skips keys, values and headers, but checks their lengths.

Source: org.apache.kafka.common.record.DefaultRecord of Apache Kafka (the layout is in
`tidelog.protocol.record`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record_varint import read_varint
from tidelog.protocol.steps import Steps

WINDOW_BYTES: Final = 64 * 1024
"""Records are copied to windows of this size, as reading bytes is faster than reading a memoryview.

A longer record is read without a copy.
"""
RECORDS_PER_STEP: Final = 500
HEADERS_PER_STEP: Final = 500

_LONG: Final = 0x80
_NULL: Final = 1
_VARINT_BYTES_MAX: Final = 10
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class Skimmed(NamedTuple):
    """Consecutive records of a batch; `first_index` is the index of the first one in the batch."""

    first_index: int
    timestamps: list[int]
    offset_deltas: list[int]
    without_key: list[int]
    """The indexes of the records with null keys, counted from the start of the batch."""


class RecordSkimmer:
    """Reads `data`, the decompressed records of the batch with `header`."""

    def __init__(self, data: memoryview, header: BatchHeader) -> None:
        self._data = data
        self._header = header
        self._append_timestamp = header.max_timestamp if header.is_log_append_time else None
        self._position = 0
        self._index = 0
        self._last_delta = -1
        self._window: bytes | memoryview = b""
        self._window_start = 0

    @property
    def is_at_end(self) -> bool:
        """Whether there are no more records."""
        return self._index >= self._header.record_count

    def skim(self) -> Steps[Skimmed]:
        """Return the next records, at most RECORDS_PER_STEP and at least one.

        Errors: DecodeError for a damaged record, or for data after the last record.
        """
        try:
            at, skimmed = yield from self._skim(
                min(RECORDS_PER_STEP, self._header.record_count - self._index)
            )
        except IndexError:
            raise self._damage_error("a record ends beyond the data") from None
        if not (min(skimmed.timestamps) >= _INT64_MIN and max(skimmed.timestamps) <= _INT64_MAX):
            raise self._damage_error("a timestamp exceeds 64 bits")
        self._position = self._window_start + at
        self._index, self._last_delta = self._index + len(skimmed.timestamps), skimmed.offset_deltas[-1]
        if self.is_at_end:
            self._check_end()
        return skimmed

    def _skim(self, count: int) -> Steps[tuple[int, Skimmed]]:  # noqa: PLR0912, PLR0915
        """Return the position after at most `count` records in the window, and them; inline for speed."""
        varint = read_varint
        base, append_timestamp = self._header.base_timestamp, self._append_timestamp
        timestamps: list[int] = []
        deltas: list[int] = []
        without_key: list[int] = []
        first_index, previous = self._index, self._last_delta
        at, window = self._fill()
        window_bytes = len(window)
        for index in range(first_index, first_index + count):
            start = at
            if window_bytes - at < _VARINT_BYTES_MAX and timestamps:
                break
            if (length := window[at]) < _LONG:
                length = length >> 1 ^ -(length & 1)
            else:
                length, at = varint(window, at)
            end = at + 1 + length
            if end > window_bytes and timestamps:
                at = start
                break
            at += 2
            if (delta := window[at]) < _LONG:
                delta = delta >> 1 ^ -(delta & 1)
            else:
                delta, at = varint(window, at)
            at += 1
            if (offset_delta := window[at]) < _LONG:
                offset_delta = offset_delta >> 1 ^ -(offset_delta & 1)
            elif (byte := window[at + 1]) < _LONG:
                offset_delta = offset_delta & 0x7F | byte << 7
                offset_delta, at = offset_delta >> 1 ^ -(offset_delta & 1), at + 1
            elif (third := window[at + 2]) < _LONG:
                offset_delta = offset_delta & 0x7F | (byte & 0x7F) << 7 | third << 14
                offset_delta, at = offset_delta >> 1 ^ -(offset_delta & 1), at + 2
            else:
                offset_delta, at = varint(window, at)
            at += 1
            if (size := window[at]) < _LONG:
                size = size >> 1 ^ -(size & 1)
            else:
                size, at = varint(window, at)
            at += 1
            if size < 0:
                without_key.append(index)
                size = self._null(size)
            at += size
            if (size := window[at]) < _LONG:
                size = size >> 1 ^ -(size & 1)
            else:
                size, at = varint(window, at)
            at += 1 + (size if size >= 0 else self._null(size))
            at = at + 1 if not window[at] else (yield from self._skip_headers(window, at))
            if at != end or offset_delta <= previous:
                raise self._damage_error(f"record {index} has offset delta {offset_delta} after {previous}")
            previous = offset_delta
            deltas.append(offset_delta)
            timestamps.append(base + delta if append_timestamp is None else append_timestamp)
        return at, Skimmed(first_index, timestamps, deltas, without_key)

    def _fill(self) -> tuple[int, bytes | memoryview]:
        """Return the start of the next record in the window, and the window.

        The window contains the whole record, unless `data` ends within it.
        """
        at = self._position - self._window_start
        if len(self._window) - at < _VARINT_BYTES_MAX:
            at = self._copy_window(WINDOW_BYTES)
        length, last = read_varint(self._window, at)
        needed = last + 1 - at + length
        if needed > len(self._window) - at:
            at = self._copy_window(max(needed, WINDOW_BYTES))
        return at, self._window

    def _copy_window(self, size: int) -> int:
        window = self._data[self._position : self._position + size]
        self._window_start = self._position
        self._window = window if size > WINDOW_BYTES else bytes(window)
        return 0

    def _skip_headers(self, window: bytes | memoryview, at: int) -> Steps[int]:
        """Return the position after the headers, whose count is at `at`."""
        count, last = read_varint(window, at)
        if count < 0:
            raise self._damage_error(f"header count {count}")
        for number in range(1, count + 1):
            if number % HEADERS_PER_STEP == 0:
                yield None
            size, last = read_varint(window, last + 1)
            if size < 0:
                raise self._damage_error(f"length {size} of a header key")
            size, last = read_varint(window, last + 1 + size)
            last += size if size >= 0 else self._null(size)
        return last + 1

    def _null(self, size: int) -> int:
        if size != -_NULL:
            raise self._damage_error(f"length {size} of a key or value")
        return 0

    def _check_end(self) -> None:
        if self._position != len(self._data) or self._last_delta > self._header.last_offset_delta:
            raise self._damage_error(
                f"{self._header.record_count} records end at {self._position} of {len(self._data)} bytes, "
                f"at offset delta {self._last_delta} of {self._header.last_offset_delta}"
            )

    def _damage_error(self, what: str) -> DecodeError:
        return DecodeError(f"records of the batch at offset {self._header.base_offset}: {what}")
