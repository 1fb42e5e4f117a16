"""Records of format 2: the decoding of the records of a batch, and the encoding of a batch of records.

A record, whose lengths and deltas are zigzag varints:

| length | attributes (int8, unused) | timestamp delta | offset delta |
| key length or -1 | key | value length or -1 | value |
| header count | per header: key length, key, value length or -1, value |

Source: org.apache.kafka.common.record.DefaultRecord of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelog.protocol.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
    write_header,
)
from tidelog.protocol.compression import BytesLike, Compression, compress, decompress
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from tidelog.protocol.primitives import write_varlong

RecordHeader: TypeAlias = tuple[str, bytes | None]

DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_VARINT_BYTES_MAX: Final = 10
RECORD_BYTES_MIN: Final = 7
"""The size of a record with null key, null value and no headers: each of the seven fields takes one byte."""
# Lengths and deltas below this number are encoded by a look-up.
_TABLE_SIZE: Final = 2048
_THREE_BYTES_MAX: Final = 1 << 20
"""Smaller numbers have varints of at most three bytes."""


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


def read_varint(data: BytesLike, start: int) -> tuple[int, int]:
    """Return the zigzag varint at `start`, and the position of its last byte.

    Errors: IndexError if `data` ends within the varint; DecodeError if it exceeds 64 bits.
    """
    byte = data[start]
    value = byte & 0x7F
    last = start
    while byte & 0x80:
        last += 1
        byte = data[last]
        value |= (byte & 0x7F) << 7 * (last - start)
        if value >> 64 or last - start >= _VARINT_BYTES_MAX:
            raise DecodeError(f"the varint at {start} exceeds 64 bits")
    return (value >> 1) ^ -(value & 1), last


def encode_varint(number: int) -> bytes:
    """Return the zigzag varint of `number`.

    Errors: ValueError if it exceeds 64 bits.
    """
    if _TABLE_SIZE <= number < _THREE_BYTES_MAX:
        # The offset deltas of large batches; a loop takes three times as long.
        zigzag = number << 1
        if zigzag < 1 << 14:
            return bytes((zigzag & 0x7F | 0x80, zigzag >> 7))
        return bytes((zigzag & 0x7F | 0x80, zigzag >> 7 & 0x7F | 0x80, zigzag >> 14))
    encoded = bytearray()
    write_varlong(encoded, number)
    return bytes(encoded)


_ZIGZAG: Final[tuple[int | None, ...]] = (
    *((value >> 1) ^ -(value & 1) for value in range(0x80)),
    *(None for _ in range(0x80)),
)
_VARINTS: Final = tuple(map(encode_varint, range(_TABLE_SIZE)))
_NULL: Final = encode_varint(-1)


def _signed_varint(number: int) -> bytes:
    return _VARINTS[number] if 0 <= number < _TABLE_SIZE else encode_varint(number)


def _encode_headers(headers: Iterable[RecordHeader]) -> bytes:
    parts = [b""]
    count = 0
    for key, value in headers:
        count += 1
        key_bytes = key.encode()
        parts += (_signed_varint(len(key_bytes)), key_bytes)
        parts += (_NULL,) if value is None else (_signed_varint(len(value)), value)
    parts[0] = _signed_varint(count)
    return b"".join(parts)


_NO_HEADERS: Final = _encode_headers(())


class BatchProducer(NamedTuple):
    """The producer in the header of a batch; by default a producer that is not idempotent.

    `base_sequence`: the sequence number of the first record. `is_transactional`: whether the records belong
    to a transaction.
    """

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


NO_PRODUCER: Final = BatchProducer()


class BatchBuilder:
    """Encodes records one by one, and builds a batch of them.

    Records have consecutive offsets from `base_offset` on. If `log_append_time` (in ms) is not None, it is
    the timestamp of every record. A batch may have no records.
    """

    __slots__ = (
        "_attributes",
        "_base_offset",
        "_base_timestamp",
        "_compression",
        "_compression_level",
        "_count",
        "_leader_epoch",
        "_log_append_time",
        "_max_timestamp",
        "_parts",
        "_producer",
        "_size_bytes",
    )

    def __init__(
        self,
        *,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        base_offset: int = 0,
        leader_epoch: int = NO_LEADER_EPOCH,
        producer: BatchProducer = NO_PRODUCER,
        is_control: bool = False,
        log_append_time: int | None = None,
    ) -> None:
        self._compression = compression
        self._compression_level = compression_level
        self._base_offset = base_offset
        self._leader_epoch = leader_epoch
        self._producer = producer
        self._log_append_time = log_append_time
        self._attributes = (
            compression
            | (ATTRIBUTE_TRANSACTIONAL if producer.is_transactional else 0)
            | (ATTRIBUTE_CONTROL if is_control else 0)
            | (0 if log_append_time is None else ATTRIBUTE_LOG_APPEND_TIME)
        )
        self._parts: list[bytes] = []
        self._count = 0
        self._size_bytes = BATCH_OVERHEAD
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    @property
    def record_count(self) -> int:
        """The number of records that were appended."""
        return self._count

    @property
    def estimated_size_bytes(self) -> int:
        """The size of the batch before compression; exact if the batch is not compressed."""
        return self._size_bytes

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[RecordHeader] = (),
    ) -> None:
        """Append one record at the next offset; `timestamp` is in ms.

        Errors: ValueError for a timestamp whose delta exceeds 64 bits; no record is then appended.
        """
        count = self._count
        base_timestamp = self._base_timestamp if count else timestamp
        body = self._encode(timestamp - base_timestamp, count, key, value, headers)
        # The state changes only after the record was encoded without an error.
        if count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        length = len(body)
        prefix = _VARINTS[length] if length < _TABLE_SIZE else encode_varint(length)
        self._parts += (prefix, body)
        self._size_bytes += length + len(prefix)
        self._count = count + 1

    def append_values(self, timestamp: int, values: Sequence[bytes]) -> None:
        """Append records without keys and headers; `append` takes three times as long.

        Errors: ValueError as `append`; no record is then appended.
        """
        if not values:
            return
        varints, table_size, join = _VARINTS, _TABLE_SIZE, b"".join
        base_timestamp = self._base_timestamp if self._count else timestamp
        before_delta = b"\0" + encode_varint(timestamp - base_timestamp)
        fixed_bytes = len(before_delta) + len(_NULL) + len(_NO_HEADERS)
        parts = []
        for delta, value in enumerate(values, self._count):
            size = len(value)
            offset_delta = varints[delta] if delta < table_size else encode_varint(delta)
            value_length = varints[size] if size < table_size else encode_varint(size)
            length = fixed_bytes + len(offset_delta) + len(value_length) + size
            prefix = varints[length] if length < table_size else encode_varint(length)
            parts.append(join((prefix, before_delta, offset_delta, _NULL, value_length, value, _NO_HEADERS)))
        self._base_timestamp = base_timestamp
        self._max_timestamp = max(timestamp, self._max_timestamp) if self._count else timestamp
        self._parts += parts
        self._size_bytes += sum(map(len, parts))
        self._count += len(values)

    def build(self) -> bytearray:
        """Return a batch of the records so far; more may be appended for a longer batch."""
        records = b"".join(self._parts)
        if self._compression is not Compression.NONE and records:
            records = compress(self._compression, records, self._compression_level)
        batch = bytearray(BATCH_OVERHEAD)
        batch += records
        header = BatchHeader(
            base_offset=self._base_offset,
            batch_length=len(batch) - LOG_OVERHEAD,
            partition_leader_epoch=self._leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=self._attributes,
            last_offset_delta=max(self._count - 1, 0),
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp if self._log_append_time is None else self._log_append_time,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            base_sequence=self._producer.base_sequence,
            record_count=self._count,
        )
        write_header(batch, 0, header)
        return batch

    def _encode(
        self,
        timestamp_delta: int,
        offset_delta: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[RecordHeader],
    ) -> bytes:
        varints = _VARINTS
        return b"".join(
            (
                b"\0",
                varints[timestamp_delta]
                if 0 <= timestamp_delta < _TABLE_SIZE
                else encode_varint(timestamp_delta),
                varints[offset_delta] if offset_delta < _TABLE_SIZE else encode_varint(offset_delta),
                _NULL if key is None else _signed_varint(len(key)),
                key or b"",
                _NULL if value is None else _signed_varint(len(value)),
                value or b"",
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
