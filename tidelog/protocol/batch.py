"""Record batches of format 2: the header, the checksum, and the fields that a broker sets.

Records are not read, so the number of records does not matter; only the checksum depends on their size.

| at | field                  | type  | |
|----|------------------------|-------|-|
| 0  | base offset            | int64 | set by the leader |
| 8  | batch length           | int32 | number of bytes after this field |
| 12 | partition leader epoch | int32 | set by the leader |
| 16 | magic                  | int8  | 2 |
| 17 | crc                    | uint32| CRC-32C of all bytes from 21 on |
| 21 | attributes             | int16 | bits 0-2 compression, then the ATTRIBUTE_ constants |
| 23 | last offset delta      | int32 | |
| 27 | base timestamp         | int64 | |
| 35 | max timestamp          | int64 | |
| 43 | producer id            | int64 | |
| 51 | producer epoch         | int16 | |
| 53 | base sequence          | int32 | |
| 57 | record count           | int32 | |
| 61 | records                |       | compressed as a whole |

Source: org.apache.kafka.common.record.DefaultRecordBatch of Apache Kafka; KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.protocol.compression import BytesLike, Compression
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import NO_PRODUCER_ID, NO_SEQUENCE

LOG_OVERHEAD: Final = 12
BATCH_OVERHEAD: Final = 61
MAGIC: Final = 2
NO_TIMESTAMP: Final = -1

ATTRIBUTE_COMPRESSION_MASK: Final = 0x07
ATTRIBUTE_LOG_APPEND_TIME: Final = 0x08
ATTRIBUTE_TRANSACTIONAL: Final = 0x10
ATTRIBUTE_CONTROL: Final = 0x20
ATTRIBUTE_DELETE_HORIZON: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")

_LEADER_EPOCH_AT: Final = 12
_CRC_AT: Final = 17
_MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 21
"""The position of the first byte of a batch that its checksum covers."""
_LOW_ATTRIBUTES_AT: Final = ATTRIBUTES_AT + 1
_MAX_TIMESTAMP_AT: Final = 35

_SEQUENCES: Final = 1 << 31
_COMPRESSIONS: Final = tuple(Compression)

assert _HEADER.size == BATCH_OVERHEAD


class BatchHeader(NamedTuple):
    """The header of a batch, with the fields in the order of its bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The number of bytes of the whole batch."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which wraps to 0 after 2^31 - 1; -1 if there is none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def compression(self) -> Compression:
        """The compression codec of the records.

        Errors: DecodeError for an unknown number.
        """
        number = self.attributes & ATTRIBUTE_COMPRESSION_MASK
        if number >= len(_COMPRESSIONS):
            raise DecodeError(f"unknown compression {number} in batch at offset {self.base_offset}")
        return _COMPRESSIONS[number]

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self.attributes & ATTRIBUTE_TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch has control records, which consumers skip."""
        return self.attributes & ATTRIBUTE_CONTROL != 0

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamp of every record is `max_timestamp`, which the broker has set."""
        return self.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer has written the batch."""
        return self.producer_id > NO_PRODUCER_ID


def read_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """Return the header at `position`; the records need not be in `buffer`.

    Errors: DecodeError if fewer than 61 bytes are available, the magic is not 2, or a length, a count or the
    last offset delta is invalid. `BatchHeader.size_bytes` is not compared with the size of `buffer`, so that
    headers can be read without records.
    """
    try:
        header = tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))
    except struct.error:
        available = len(buffer) - position
        raise DecodeError(f"batch header at {position}: {available} of {BATCH_OVERHEAD} bytes") from None
    _, batch_length, _, magic, _, _, last_offset_delta, _, _, _, _, _, record_count = header
    if magic != MAGIC:
        raise DecodeError(f"batch at {position}: magic {magic} is not supported; only {MAGIC} is")
    if batch_length < BATCH_OVERHEAD - LOG_OVERHEAD:
        raise DecodeError(f"batch at {position}: length {batch_length} is less than that of a header")
    if last_offset_delta < 0 or record_count < 0:
        raise DecodeError(
            f"batch at {position}: last offset delta {last_offset_delta}, record count {record_count}"
        )
    return header


def claims_transaction(records: bytes | bytearray | memoryview) -> bool:
    """Return whether the first batch belongs to a transaction; False if there is no valid batch."""
    # This is checked for every appended batch, so the condition that is usually false comes first.
    return (
        len(records) >= BATCH_OVERHEAD
        and records[_LOW_ATTRIBUTES_AT] & ATTRIBUTE_TRANSACTIONAL != 0
        and records[_MAGIC_AT] == MAGIC
    )


def crc_is_valid(buffer: BytesLike, position: int, header: BatchHeader) -> bool:
    """Return whether the checksum of the batch at `position` is valid; False if the batch is incomplete."""
    end = position + LOG_OVERHEAD + header.batch_length
    if end > len(buffer):
        return False
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    return bool(crc32c(view[position + ATTRIBUTES_AT : end]) == header.crc)


def iterate_headers(buffer: BytesLike) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of each batch.

    Errors: DecodeError at the first batch that is incomplete or has an invalid header.
    """
    position = 0
    size = len(buffer)
    while position < size:
        header = read_header(buffer, position)
        end = position + header.size_bytes
        if end > size:
            raise DecodeError(f"batch at {position}: {size - position} of {header.size_bytes} bytes")
        yield position, header
        position = end


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the base offset and the leader epoch to the batch at `position`.

    The checksum does not cover these fields.
    """
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)


def stamped(header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Return `header` with the values that `stamp` writes."""
    return tuple.__new__(BatchHeader, (base_offset, header[1], leader_epoch, *header[3:]))


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, max_timestamp: int, *, log_append_time: bool
) -> None:
    """Write `max_timestamp` and the timestamp type to the batch at `position`, and update the checksum."""
    header = read_header(buffer, position)
    attributes = header.attributes & ~ATTRIBUTE_LOG_APPEND_TIME
    if log_append_time:
        attributes |= ATTRIBUTE_LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_AT, attributes)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    update_crc(buffer, position, header.size_bytes)


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Write `header` at `position`, in front of its records, and update the checksum."""
    _HEADER.pack_into(buffer, position, *header)
    update_crc(buffer, position, header.size_bytes)


def empty_batch(header: BatchHeader) -> bytearray:
    """Return a batch without records, but with the offsets, producer and sequence numbers of `header`.

    Compaction writes it if it has removed all records of a batch.
    """
    retained_attributes = ATTRIBUTE_LOG_APPEND_TIME | ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL
    buffer = bytearray(BATCH_OVERHEAD)
    write_header(
        buffer,
        0,
        header._replace(
            batch_length=BATCH_OVERHEAD - LOG_OVERHEAD,
            attributes=header.attributes & retained_attributes,
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
    )
    return buffer


def update_crc(buffer: bytearray | memoryview, position: int, size_bytes: int) -> None:
    """Set the checksum of the batch at `position`, whose other bytes are complete."""
    with memoryview(buffer) as view:
        crc = crc32c(view[position + ATTRIBUTES_AT : position + size_bytes])
    _CRC.pack_into(buffer, position + _CRC_AT, crc)
