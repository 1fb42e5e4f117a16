"""The records of committed offsets in `__consumer_offsets`, as values and as bytes.

    type of the key        0 and 1 are read, 1 is written
    version of the value   0 to 4 are read; 4 is written, or 1 for a commit with its own expiry

A commit writes a record for each partition. Records are therefore encoded without messages, to the same bytes
as OffsetCommitKey and OffsetCommitValue, and a new coordinator decodes the records of one commit together.

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3 for the versions written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.shared.record_versions import decode_versioned, split_version
from tidelog.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.protocol.ids import Offset
from tidelog.protocol.primitives import write_unsigned_varint
from tidelog.protocol.record import Record
from tidelog.protocol.schema import ZERO_UUID

OFFSET_COMMIT: Final = 1
OFFSET_KEY_TYPES: Final = (0, OFFSET_COMMIT)
"""The types of keys that are read; type 0 is that of old versions of Kafka."""

NO_EXPIRY: Final = -1

_VALUE_VERSION: Final = 4
_VALUE_VERSION_WITH_EXPIRY: Final = 1
_INT16: Final = struct.Struct(">h")
_KEY_START: Final = struct.Struct(">hh")
_PARTITION: Final = struct.Struct(">i")
_VALUE_START: Final = struct.Struct(">hqi")
_TIMESTAMP: Final = struct.Struct(">q")
_VALUE_START_WITH_EXPIRY: Final = struct.Struct(">hqh")
_TIMESTAMP_AND_EXPIRY: Final = struct.Struct(">qq")
_VALUE_WITHOUT_METADATA: Final = struct.Struct(">hqiBqB")
_VALUE_WITHOUT_METADATA_WITH_ID: Final = struct.Struct(">hqiBq3s16s")
_LENGTH_OF_NO_METADATA: Final = 1
_NO_TAGGED_FIELDS: Final = b"\0"
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
"""One tagged field: the tag 0 with 16 bytes."""


class OffsetKey(NamedTuple):
    """Identifies the offset of a group in a partition."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """The committed offset of a group in a partition. -1 stands for an unknown epoch or no expiry.

    `record_offset` is the offset of the record in `__consumer_offsets`, -1 if it is not appended yet.
    """

    offset: Offset
    commit_wall_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_wall_ms: int = NO_EXPIRY
    topic_id: UUID = ZERO_UUID
    record_offset: Offset = -1

    def appended_at(self, record_offset: Offset) -> CommittedOffset:
        """Return the same committed offset with the offset of its record."""
        return CommittedOffset(*self[:-1], record_offset)


class OffsetCommitRecord(NamedTuple):
    """A committed offset; None deletes it."""

    key: OffsetKey
    value: CommittedOffset | None


class CommittedOffsets(NamedTuple):
    """The offsets of a group in partitions of one topic, which consecutive records commit."""

    group_id: str
    topic: str
    offsets: dict[int, CommittedOffset]
    record_count: int


def offset_commit(
    group_id: str, topic: str, partition: int, committed: CommittedOffset
) -> OffsetCommitRecord:
    """Return the record that commits an offset."""
    return OffsetCommitRecord(OffsetKey(group_id, topic, partition), committed)


def offset_tombstone(group_id: str, topic: str, partition: int) -> OffsetCommitRecord:
    """Return the record that deletes an offset."""
    return OffsetCommitRecord(OffsetKey(group_id, topic, partition), None)


def encode_offset_record(record: OffsetCommitRecord) -> tuple[bytes, bytes | None]:
    """Return key and value in the format of the log."""
    (group_id, topic, partition), value = record
    group_bytes, topic_bytes = group_id.encode(), topic.encode()
    key = (
        _KEY_START.pack(OFFSET_COMMIT, len(group_bytes))
        + group_bytes
        + _INT16.pack(len(topic_bytes))
        + topic_bytes
        + _PARTITION.pack(partition)
    )
    return key, None if value is None else _encode_value(value)


def _encode_value(value: CommittedOffset) -> bytes:
    offset, commit_wall_ms, leader_epoch, text, expire_wall_ms, topic_id, _ = value
    metadata = text.encode()
    if expire_wall_ms != NO_EXPIRY:
        start = _VALUE_START_WITH_EXPIRY.pack(_VALUE_VERSION_WITH_EXPIRY, offset, len(metadata))
        return start + metadata + _TIMESTAMP_AND_EXPIRY.pack(commit_wall_ms, expire_wall_ms)
    encoded = bytearray(_VALUE_START.pack(_VALUE_VERSION, offset, leader_epoch))
    write_unsigned_varint(encoded, len(metadata) + 1)
    encoded += metadata
    encoded += _TIMESTAMP.pack(commit_wall_ms)
    if topic_id == ZERO_UUID:
        encoded += _NO_TAGGED_FIELDS
    else:
        encoded += _TOPIC_ID_TAG
        encoded += topic_id.bytes
    return bytes(encoded)


def decode_commits(
    records: Sequence[Record], start: int, topic_ids: dict[bytes, UUID]
) -> CommittedOffsets | None:
    """Return what the records from `start` on commit, as far as they are of one group and one topic.

    Only values of version 4 without metadata are decoded, which are nearly all of them: their fields have
    fixed positions. None if the record at `start` is another one; `decode_offset_record` decodes it.
    `topic_ids` keeps the ids of topics by their bytes.
    """
    names = _names_of_key(records[start].key or b"")
    if names is None:
        return None
    group_id, topic, names_bytes = names
    key_bytes = len(names_bytes) + _PARTITION.size
    offsets = {}
    end = start
    for end in range(start, len(records)):
        record_offset, _, key, value, _ = records[end]
        if key is None or len(key) != key_bytes or not key.startswith(names_bytes):
            break
        committed = None if value is None else _decode_plain_value(value, record_offset, topic_ids)
        if committed is None:
            break
        offsets[_PARTITION.unpack_from(key, len(names_bytes))[0]] = committed
    else:
        end += 1
    return CommittedOffsets(group_id, topic, offsets, end - start) if end > start else None


def _names_of_key(key: bytes) -> tuple[str, str, bytes] | None:
    """Return group and topic of a key with its type, and the bytes before the partition.

    None if it is not a key of an offset with exactly the bytes of its fields.
    """
    try:
        key_type, group_bytes = _KEY_START.unpack_from(key)
        group_end = _KEY_START.size + group_bytes
        topic_start = group_end + _INT16.size
        topic_end = topic_start + _INT16.unpack_from(key, group_end)[0]
        is_exact = _KEY_START.size <= group_end and topic_start <= topic_end == len(key) - _PARTITION.size
        if key_type not in OFFSET_KEY_TYPES or not is_exact:
            return None
        return key[_KEY_START.size : group_end].decode(), key[topic_start:topic_end].decode(), key[:topic_end]
    except (struct.error, UnicodeDecodeError):
        return None


def _decode_plain_value(
    value: bytes, record_offset: Offset, topic_ids: dict[bytes, UUID]
) -> CommittedOffset | None:
    """Return the committed offset of a value of version 4 without metadata; None for any other value."""
    topic_id = ZERO_UUID
    if len(value) == _VALUE_WITHOUT_METADATA_WITH_ID.size:
        fields = _VALUE_WITHOUT_METADATA_WITH_ID.unpack(value)
        version, offset, leader_epoch, length, commit_wall_ms, tag, id_bytes = fields
        if tag != _TOPIC_ID_TAG:
            return None
        known = topic_ids.get(id_bytes)
        topic_id = topic_ids.setdefault(id_bytes, UUID(bytes=id_bytes)) if known is None else known
    elif len(value) == _VALUE_WITHOUT_METADATA.size:
        version, offset, leader_epoch, length, commit_wall_ms, tags = _VALUE_WITHOUT_METADATA.unpack(value)
        if tags:
            return None
    else:
        return None
    if version != _VALUE_VERSION or length != _LENGTH_OF_NO_METADATA:
        return None
    return CommittedOffset(offset, commit_wall_ms, leader_epoch, "", NO_EXPIRY, topic_id, record_offset)


def decode_offset_messages(
    key: memoryview, value: bytes | None
) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """Return the messages of a key, without its type, and a value.

    Raise DecodeError for an invalid record and for an unknown value version.
    """
    decoded_key = decode_versioned(OffsetCommitKey, key, 0)
    if value is None:
        return decoded_key, None
    version, body = split_version(value, "value")
    return decoded_key, decode_versioned(OffsetCommitValue, body, version)


def decode_offset_record(key: memoryview, value: bytes | None) -> OffsetCommitRecord:
    """Return the record of a key, without its type, and a value. Raise DecodeError as above."""
    decoded_key, decoded = decode_offset_messages(key, value)
    offset_key = OffsetKey(decoded_key.group, decoded_key.topic, decoded_key.partition)
    if decoded is None:
        return OffsetCommitRecord(offset_key, None)
    return OffsetCommitRecord(
        offset_key,
        CommittedOffset(
            decoded.offset,
            decoded.commit_timestamp,
            decoded.leader_epoch,
            decoded.metadata,
            decoded.expire_timestamp,
            decoded.topic_id,
        ),
    )
