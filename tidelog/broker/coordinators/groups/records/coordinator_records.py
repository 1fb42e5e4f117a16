"""The records that the coordinator writes to `__consumer_offsets`, as values and as bytes.

| key type | key | value, version written | without a value |
|----------|-----|------------------------|-----------------|
| 0, 1 | OffsetCommitKey | OffsetCommitValue 4, or 1 for a commit with its own expiry | deleted offset |
| 2 | GroupMetadataKey | GroupMetadataValue 3 | deleted group |
| 3 to 8, 16 | those of `consumer_group_records` | | |
| 10 to 15 | those of `share_group_records` | | |
| 17, 19 to 23 | those of `streams_group_records` | | |

Key and value both begin with an int16: the type of the key, the version of the value.

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3 for the versions written.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.records.consumer_group_records import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupRecord,
)
from tidelog.broker.coordinators.groups.records.share_group_records import (
    SHARE_GROUP_RECORDS,
    ShareGroupRecord,
)
from tidelog.broker.coordinators.groups.records.streams_group_records import (
    STREAMS_GROUP_RECORDS,
    StreamsGroupRecord,
)
from tidelog.broker.coordinators.shared.record_versions import PREFIX, split_version
from tidelog.protocol.codec import decode_prefix, encode_into
from tidelog.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tidelog.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.protocol.schema import ZERO_UUID, Message

_M = TypeVar("_M", bound=Message)

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2

_OFFSET_VALUE_VERSION: Final = 4
_OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VALUE_VERSION: Final = 3


class OffsetCommitRecord(NamedTuple):
    """A committed offset; None deletes it."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None


class GroupMetadataRecord(NamedTuple):
    """A new generation of a group; None deletes the group."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


CoordinatorRecord: TypeAlias = (
    OffsetCommitRecord | GroupMetadataRecord | ConsumerGroupRecord | ShareGroupRecord | StreamsGroupRecord
)


class CommittedOffset(NamedTuple):
    """The committed offset of a group in a partition. -1 stands for an unknown epoch or no expiry.

    `record_offset` is the offset of the record in `__consumer_offsets`.
    """

    offset: Offset
    commit_wall_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_wall_ms: int = -1
    topic_id: UUID = ZERO_UUID
    record_offset: Offset = -1

    @classmethod
    def from_value(cls, value: OffsetCommitValue, record_offset: Offset) -> CommittedOffset:
        """Return the committed offset of a record at `record_offset`."""
        return cls(
            value.offset,
            value.commit_timestamp,
            value.leader_epoch,
            value.metadata,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )


def offset_commit(
    group_id: str, topic: str, partition: int, committed: CommittedOffset
) -> OffsetCommitRecord:
    """Return the record that commits an offset."""
    return OffsetCommitRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_wall_ms,
            expire_timestamp=committed.expire_wall_ms,
            topic_id=committed.topic_id,
        ),
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> OffsetCommitRecord:
    """Return the record that deletes an offset."""
    return OffsetCommitRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_metadata(group: Group, assignments: dict[str, bytes]) -> GroupMetadataRecord:
    """Return the record of the group's current generation with the assignments of its members."""
    protocol = group.protocol_name
    return GroupMetadataRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=protocol,
            leader=group.leader_id,
            current_state_timestamp=-1 if group.state_wall_ms is None else group.state_wall_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client.client_id,
                    client_host=member.client.host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(protocol or ""),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in group.members.values()
            ),
        ),
    )


def new_group(group: Group) -> GroupMetadataRecord:
    """Return the record of a group that has had no generation yet."""
    return GroupMetadataRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol=None,
            leader=None,
            current_state_timestamp=-1 if group.state_wall_ms is None else group.state_wall_ms,
        ),
    )


def group_tombstone(group_id: str) -> GroupMetadataRecord:
    """Return the record that deletes a group."""
    return GroupMetadataRecord(GroupMetadataKey(group=group_id), None)


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return key and value in the format of the log."""
    if isinstance(record, OffsetCommitRecord):
        return _encode(OFFSET_COMMIT, record.key, record.value, _offset_value_version(record.value))
    if isinstance(record, GroupMetadataRecord):
        return _encode(GROUP_METADATA, record.key, record.value, _GROUP_VALUE_VERSION)
    if isinstance(record, ConsumerGroupRecord):
        return CONSUMER_GROUP_RECORDS.encode(*record)
    if isinstance(record, ShareGroupRecord):
        return SHARE_GROUP_RECORDS.encode(*record)
    return STREAMS_GROUP_RECORDS.encode(*record)


def _encode(key_type: int, key: Message, value: Message | None, version: int) -> tuple[bytes, bytes | None]:
    encoded = bytearray(PREFIX.pack(key_type))
    encode_into(key, 0, encoded)
    if value is None:
        return bytes(encoded), None
    encoded_value = bytearray(PREFIX.pack(version))
    encode_into(value, version, encoded_value)
    return bytes(encoded), bytes(encoded_value)


def _offset_value_version(value: OffsetCommitValue | None) -> int:
    has_expiry = value is not None and value.expire_timestamp != -1
    return _OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VALUE_VERSION


def size_bytes_min(record: CoordinatorRecord) -> int:
    """Return a lower bound of the encoded bytes: the subscriptions and assignments of a group's members."""
    if not isinstance(record, GroupMetadataRecord) or record.value is None:
        return 0
    return sum(len(member.subscription) + len(member.assignment) for member in record.value.members)


def decode_record(key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """Return the record of a key and a value; None for types of records that this coordinator does not use.

    Raise DecodeError for an invalid record and for an unknown value version.
    """
    key_type, body = split_version(key or b"", "key")
    if key_type in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
        offset_key = _decode(OffsetCommitKey, body, 0)
        if value is None:
            return OffsetCommitRecord(offset_key, None)
        version, body = split_version(value, "value")
        return OffsetCommitRecord(offset_key, _decode(OffsetCommitValue, body, version))
    if key_type == GROUP_METADATA:
        group_key = _decode(GroupMetadataKey, body, 0)
        if value is None:
            return GroupMetadataRecord(group_key, None)
        version, body = split_version(value, "value")
        return GroupMetadataRecord(group_key, _decode(GroupMetadataValue, body, version))
    if key_type in CONSUMER_GROUP_RECORDS:
        return ConsumerGroupRecord(*CONSUMER_GROUP_RECORDS.decode(key_type, body, value))
    if key_type in SHARE_GROUP_RECORDS:
        return ShareGroupRecord(*SHARE_GROUP_RECORDS.decode(key_type, body, value))
    if key_type in STREAMS_GROUP_RECORDS:
        return StreamsGroupRecord(*STREAMS_GROUP_RECORDS.decode(key_type, body, value))
    return None


def _decode(cls: type[_M], body: memoryview, version: int) -> _M:
    if version not in cls.valid_versions:
        raise DecodeError(f"{cls.__name__} has version {version}, which is not supported")
    return decode_prefix(cls, body, version, 0)[0]
