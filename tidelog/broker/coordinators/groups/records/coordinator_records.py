"""The records that the coordinator writes to `__consumer_offsets`, as values and as bytes.

| key type | key | value, version written | without a value |
|----------|-----|------------------------|-----------------|
| 0, 1 | those of `offset_records` | | deleted offset |
| 2 | GroupMetadataKey | GroupMetadataValue 3 | deleted group |
| 3 to 8, 16 | those of `consumer_group_records` | | |
| 10 to 15 | those of `share_group_records` | | |
| 17, 19 to 23 | those of `streams_group_records` | | |

Key and value both begin with an int16: the type of the key, the version of the value.

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3 for the versions written.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.records.consumer_group_records import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupRecord,
)
from tidelog.broker.coordinators.groups.records.offset_records import (
    OFFSET_KEY_TYPES,
    OffsetCommitRecord,
    decode_offset_messages,
    decode_offset_record,
    encode_offset_record,
)
from tidelog.broker.coordinators.groups.records.share_group_records import (
    SHARE_GROUP_RECORDS,
    ShareGroupRecord,
)
from tidelog.broker.coordinators.groups.records.streams_group_records import (
    STREAMS_GROUP_RECORDS,
    StreamsGroupRecord,
)
from tidelog.broker.coordinators.shared.record_versions import PREFIX, decode_versioned, split_version
from tidelog.protocol.codec import encode_into
from tidelog.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tidelog.protocol.schema import Message

GROUP_METADATA: Final = 2

_GROUP_VALUE_VERSION: Final = 3


class GroupMetadataRecord(NamedTuple):
    """A new generation of a group; None deletes the group."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


CoordinatorRecord: TypeAlias = (
    OffsetCommitRecord | GroupMetadataRecord | ConsumerGroupRecord | ShareGroupRecord | StreamsGroupRecord
)


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
        return encode_offset_record(record)
    if isinstance(record, GroupMetadataRecord):
        return _encode_group(record)
    if isinstance(record, ConsumerGroupRecord):
        return CONSUMER_GROUP_RECORDS.encode(*record)
    if isinstance(record, ShareGroupRecord):
        return SHARE_GROUP_RECORDS.encode(*record)
    return STREAMS_GROUP_RECORDS.encode(*record)


def _encode_group(record: GroupMetadataRecord) -> tuple[bytes, bytes | None]:
    key = bytearray(PREFIX.pack(GROUP_METADATA))
    encode_into(record.key, 0, key)
    if record.value is None:
        return bytes(key), None
    value = bytearray(PREFIX.pack(_GROUP_VALUE_VERSION))
    encode_into(record.value, _GROUP_VALUE_VERSION, value)
    return bytes(key), bytes(value)


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
    if key_type in OFFSET_KEY_TYPES:
        return decode_offset_record(body, value)
    if key_type == GROUP_METADATA:
        group_key = decode_versioned(GroupMetadataKey, body, 0)
        if value is None:
            return GroupMetadataRecord(group_key, None)
        version, body = split_version(value, "value")
        return GroupMetadataRecord(group_key, decode_versioned(GroupMetadataValue, body, version))
    if key_type in CONSUMER_GROUP_RECORDS:
        return ConsumerGroupRecord(*CONSUMER_GROUP_RECORDS.decode(key_type, body, value))
    if key_type in SHARE_GROUP_RECORDS:
        return ShareGroupRecord(*SHARE_GROUP_RECORDS.decode(key_type, body, value))
    if key_type in STREAMS_GROUP_RECORDS:
        return StreamsGroupRecord(*STREAMS_GROUP_RECORDS.decode(key_type, body, value))
    return None


def decode_messages(key: bytes | None, value: bytes | None) -> tuple[Message, Message | None] | None:
    """Return the messages of a key and a value, for tools; None and errors as `decode_record`."""
    key_type, body = split_version(key or b"", "key")
    if key_type in OFFSET_KEY_TYPES:
        return decode_offset_messages(body, value)
    record = decode_record(key, value)
    assert not isinstance(record, OffsetCommitRecord)
    return None if record is None else (record.key, record.value)
