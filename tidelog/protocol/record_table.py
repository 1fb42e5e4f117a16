"""The positions and keys of the records of a batch, for compaction, which retains some of the records.

`scan_records` reads only the lengths, offsets and keys of decompressed records, and skips values and headers.
The bytes of retained records can then be copied without encoding them again.

Source: org.apache.kafka.common.record.DefaultRecord of Apache Kafka (the layout is in
`tidelog.protocol.record`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import encode_varint, read_varint

_NULL: Final = 1
_LONG: Final = 0x80
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class RecordTable(NamedTuple):
    """The records of a batch: `keys`, `offset_deltas` and `ends` have one entry per record."""

    keys: list[bytes | None]
    offset_deltas: list[int]
    ends: list[int]
    """The positions after each record; the next record starts there, the first one at 0."""
    tombstones: list[int]
    """The indexes of the records whose value is null."""
    has_null_keys: bool


def scan_records(data: bytes, record_count: int) -> RecordTable:
    """Return the keys and positions of the records in `data`, the result of `record.read_payload`.

    Errors: DecodeError if `data` is not exactly `record_count` records with increasing offsets.
    """
    try:
        return _scan(data, record_count)
    except IndexError:
        raise DecodeError(f"{record_count} records end beyond the {len(data)} bytes of data") from None


def _scan(data: bytes, record_count: int) -> RecordTable:  # noqa: PLR0912
    """Return the keys and positions of the records in `data`; IndexError if they end beyond it.

    For speed, varints of one or two bytes are decoded inline.
    """
    keys: list[bytes | None] = []
    deltas: list[int] = []
    ends: list[int] = []
    tombstones: list[int] = []
    null_keys = 0
    varint = read_varint
    add_key, add_delta, add_end = keys.append, deltas.append, ends.append
    at, previous_delta = 0, -1
    for index in range(record_count):
        if (length := data[at]) < _LONG:
            length >>= 1
        elif (byte := data[at + 1]) < _LONG:
            length, at = (length & 0x7F | byte << 7) >> 1, at + 1
        else:
            length, at = varint(data, at)
        end = at + 1 + length
        at += 2  # the last byte of the length, and the attributes
        while data[at] >= _LONG:  # the timestamp delta
            at += 1
        at += 1
        if (delta := data[at]) < _LONG:
            delta >>= 1
        elif (byte := data[at + 1]) < _LONG:
            delta, at = (delta & 0x7F | byte << 7) >> 1, at + 1
        else:
            delta, at = varint(data, at)
        at += 1
        if (size := data[at]) < _LONG:
            is_null, size = size & 1, 0 if size & 1 else size >> 1
        else:
            size, at = varint(data, at)
            is_null = 0
        at += 1
        value_at = at + size
        if not at <= value_at < end or delta <= previous_delta:
            raise DecodeError(
                f"record {index} of {record_count} ends at {end} of {len(data)}, offset {delta}"
            )
        add_key(None if is_null else data[at:value_at])
        null_keys += is_null
        if data[value_at] == _NULL:
            tombstones.append(index)
        add_delta(delta)
        add_end(end)
        previous_delta = delta
        at = end
    if at != len(data):
        raise DecodeError(f"{record_count} records take {at} of {len(data)} bytes")
    return RecordTable(keys, deltas, ends, tombstones, null_keys > 0)


def max_timestamp_delta(data: bytes, starts: Iterable[int]) -> int:
    """Return the largest timestamp delta of the records at `starts`, in ms."""
    varint = read_varint
    newest = _INT64_MIN
    for start in starts:
        at = start
        while data[at] >= _LONG:  # the length
            at += 1
        at += 2  # the last byte of the length, and the attributes
        if (byte := data[at]) < _LONG:
            delta = byte >> 1 ^ -(byte & 1)
        else:
            delta, _ = varint(data, at)
        if delta > newest:  # noqa: PLR1730 - a call of max takes as long as the rest of the loop
            newest = delta
    return newest


def with_shifted_timestamp(data: bytes, start: int, end: int, by_ms: int) -> bytes:
    """Return the record from `start` to `end` with `by_ms` added to its timestamp delta.

    The sum is limited to 64 bits.
    """
    _, length_last = read_varint(data, start)
    delta, delta_last = read_varint(data, length_last + 2)
    attributes = data[length_last + 1 : length_last + 2]
    shifted_delta = min(max(delta + by_ms, _INT64_MIN), _INT64_MAX)
    body = attributes + encode_varint(shifted_delta) + data[delta_last + 1 : end]
    return encode_varint(len(body)) + body


def join_records(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """Return the concatenated bytes of the records whose starts and ends are `spans`."""
    return b"".join([data[start:end] for start, end in spans])
