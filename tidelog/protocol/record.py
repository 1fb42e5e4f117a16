"""Records of format 2: decodes the records of a batch. `tidelog.protocol.batch_builder` encodes them.

A record, whose lengths and deltas are zigzag varints:

| length | attributes (int8, unused) | timestamp delta | offset delta |
| key length or -1 | key | value length or -1 | value |
| header count | per header: key length, key, value length or -1, value |

Source: org.apache.kafka.common.record.DefaultRecord of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, read_header
from tidelog.protocol.compression import BytesLike, Compression, decompress
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record_varint import read_varint

RecordHeader: TypeAlias = tuple[str, bytes | None]

DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
RECORD_BYTES_MIN: Final = 7
"""The size of a record with null key, null value and no headers: each of the seven fields takes one byte."""
_ZIGZAG: Final[tuple[int | None, ...]] = (
    *((value >> 1) ^ -(value & 1) for value in range(0x80)),
    *(None for _ in range(0x80)),
)
"""The number of a varint of one byte; None for the first byte of a longer one."""


class Record(NamedTuple):
    """One record with its offset; `timestamp` is in ms since 1970 (UTC)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]


def read_records(
    buffer: BytesLike,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """Return all records of the batch at `position`, in the order of offsets; the checksum is not checked.

    Errors: DecodeError if the batch is incomplete, if the decompressed records exceed
    `max_decompressed_bytes`, or if they are not consistent with the header and their own lengths.
    """
    return list(iterate_records(buffer, position, header, max_decompressed_bytes=max_decompressed_bytes))


def iterate_records(
    buffer: BytesLike,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """Yield the records that `read_records` returns; this needs less memory than a list of all.

    Errors: as `read_records`; an error in a record is raised when the record is reached.
    """
    if header is None:
        header = read_header(buffer, position)
    yield from iterate_payload(read_payload(buffer, position, header, max_decompressed_bytes), header)


def read_payload(buffer: BytesLike, position: int, header: BatchHeader, max_decompressed_bytes: int) -> bytes:
    """Return the decompressed bytes of the records of the batch at `position`.

    Errors: BoundExceeded for more than `max_decompressed_bytes`; DecodeError if the batch is incomplete or
    cannot contain its stated number of records.
    """
    end = position + header.size_bytes
    if end > len(buffer):
        raise DecodeError(f"batch at {position}: {len(buffer) - position} of {header.size_bytes} bytes")
    payload = memoryview(buffer)[position + BATCH_OVERHEAD : end]
    if header.compression is not Compression.NONE and payload:
        data = decompress(header.compression, payload, max_decompressed_bytes)
    else:
        data = bytes(payload)
    if header.record_count * RECORD_BYTES_MIN > len(data):
        raise DecodeError(f"{header.record_count} records do not fit in {len(data)} bytes")
    return data


def iterate_payload(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Yield the records in `data`, the result of `read_payload`.

    Errors: as `iterate_records`.
    """
    try:
        yield from _parse(data, header)
    except IndexError as error:
        raise DecodeError(f"records of the batch at offset {header.base_offset}: {error}") from error


def _parse(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Yield the records in `data`; IndexError if they end beyond it.

    For speed, varints of one byte are decoded inline with a table that has None for longer ones. A length
    that exceeds `data` needs no check: its slice ends with `data`, and then the next index raises IndexError
    or the position is not the end of the record.
    """
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_timestamp = header.max_timestamp if header.is_log_append_time else None
    zigzag = _ZIGZAG
    varint = read_varint
    new = tuple.__new__
    previous_delta = -1
    at = 0
    for _ in range(header.record_count):
        if (length := zigzag[data[at]]) is None:
            length, at = varint(data, at)
        end = at + 1 + length
        at += 2
        if (timestamp_delta := zigzag[data[at]]) is None:
            timestamp_delta, at = varint(data, at)
        at += 1
        if (offset_delta := zigzag[data[at]]) is None:
            offset_delta, at = varint(data, at)
        at += 1
        if (length := zigzag[data[at]]) is None:
            length, at = varint(data, at)
        at += 1
        key = data[at : (at := at + length)] if length >= 0 else _null(length)
        if (length := zigzag[data[at]]) is None:
            length, at = varint(data, at)
        at += 1
        value = data[at : (at := at + length)] if length >= 0 else _null(length)
        headers: tuple[RecordHeader, ...] = ()
        if data[at]:
            headers, at = _read_headers(data, at)
        else:
            at += 1
        if at != end or offset_delta <= previous_delta:
            raise DecodeError(
                f"record at {end}: offset delta {offset_delta} after {previous_delta}, end {at}"
            )
        previous_delta = offset_delta
        timestamp = base_timestamp + timestamp_delta if append_timestamp is None else append_timestamp
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise DecodeError(f"timestamp {base_timestamp} with delta {timestamp_delta} exceeds 64 bits")
        yield new(Record, (base_offset + offset_delta, timestamp, key, value, headers))
    if at != len(data) or previous_delta > header.last_offset_delta:
        raise DecodeError(
            f"{header.record_count} records end at {at} of {len(data)} bytes, "
            f"at offset delta {previous_delta} of {header.last_offset_delta}"
        )


def _null(length: int) -> bytes | None:
    """Return None, the value for the length -1; raise DecodeError for any other negative length."""
    if length != -1:
        raise DecodeError(f"length {length} of a key or value")
    return None


def _read_headers(data: bytes, start: int) -> tuple[tuple[RecordHeader, ...], int]:
    """Return the headers, whose count is at `start`, and the position after them.

    Lengths that exceed `data` are detected as in `_parse`.
    """
    count, last = read_varint(data, start)
    if count < 0:
        raise DecodeError(f"header count {count} is negative")
    headers: list[RecordHeader] = []
    for _ in range(count):
        length, last = read_varint(data, last + 1)
        if length < 0:
            raise DecodeError(f"length {length} of a header key")
        # Brokers do not check header keys, so they may have any bytes. Java's consumer replaces them, too.
        key = data[last + 1 : last + 1 + length].decode(errors="replace")
        length, last = read_varint(data, last + 1 + length)
        headers.append((key, data[last + 1 : last + 1 + length] if length >= 0 else _null(length)))
        last += max(length, 0)
    return tuple(headers), last + 1
