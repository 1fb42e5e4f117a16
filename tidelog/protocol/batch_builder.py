"""Builds batches of records in format 2. `tidelog.protocol.record` has the layout, and decodes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidelog.protocol.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    write_header,
)
from tidelog.protocol.compression import Compression, compress
from tidelog.protocol.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from tidelog.protocol.record import RecordHeader
from tidelog.protocol.record_varint import SHORT_VARINT_COUNT, SHORT_VARINTS, encode_varint

_NULL: Final = encode_varint(-1)


def _signed_varint(number: int) -> bytes:
    return SHORT_VARINTS[number] if 0 <= number < SHORT_VARINT_COUNT else encode_varint(number)


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
        prefix = SHORT_VARINTS[length] if length < SHORT_VARINT_COUNT else encode_varint(length)
        self._parts += (prefix, body)
        self._size_bytes += length + len(prefix)
        self._count = count + 1

    def append_values(self, timestamp: int, values: Sequence[bytes]) -> None:
        """Append records without keys and headers; `append` takes three times as long.

        Errors: ValueError as `append`; no record is then appended.
        """
        if not values:
            return
        varints, table_size, join = SHORT_VARINTS, SHORT_VARINT_COUNT, b"".join
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
        varints = SHORT_VARINTS
        return b"".join(
            (
                b"\0",
                varints[timestamp_delta]
                if 0 <= timestamp_delta < SHORT_VARINT_COUNT
                else encode_varint(timestamp_delta),
                varints[offset_delta] if offset_delta < SHORT_VARINT_COUNT else encode_varint(offset_delta),
                _NULL if key is None else _signed_varint(len(key)),
                key or b"",
                _NULL if value is None else _signed_varint(len(value)),
                value or b"",
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
