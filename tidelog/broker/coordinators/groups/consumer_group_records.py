"""The records of consumer groups (KIP-848), as values and as bytes.

| key type | key and value | content |
|----------|---------------|---------|
| 3  | ConsumerGroupMetadata | group epoch, hash of the metadata of the subscribed topics |
| 4  | ConsumerGroupPartitionMetadata | of Kafka before 4.1; only its tombstone is written |
| 5  | ConsumerGroupMemberMetadata | subscription and client of a member |
| 6  | ConsumerGroupTargetAssignmentMetadata | assignment epoch |
| 7  | ConsumerGroupTargetAssignmentMember | target assignment of a member |
| 8  | ConsumerGroupCurrentMemberAssignment | epoch, state and partitions of a member |
| 16 | ConsumerGroupRegularExpression | topics that match an expression |

Source: CoordinatorRecordType of Apache Kafka 4.3. All values have version 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.coordinators.shared.record_versions import PREFIX, split_version
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tidelog.protocol.errors import DecodeError

ConsumerGroupKey: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
ConsumerGroupValue: TypeAlias = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

_VALUE_VERSION: Final = 0

_TYPES: Final[Mapping[int, tuple[type[ConsumerGroupKey], type[ConsumerGroupValue]]]] = MappingProxyType(
    {
        3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    }
)
_KEY_TYPES: Final = {key_class: number for number, (key_class, _) in _TYPES.items()}


class ConsumerGroupRecord(NamedTuple):
    """One record of a consumer group; a value of None deletes the key."""

    key: ConsumerGroupKey
    value: ConsumerGroupValue | None


def is_consumer_group_record(key_type: int) -> bool:
    """Return whether a record with this key type belongs to a consumer group."""
    return key_type in _TYPES


def encode_consumer_group_record(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    """Return key and value in the format of the log."""
    key = PREFIX.pack(_KEY_TYPES[type(record.key)]) + encode(record.key, 0)
    if record.value is None:
        return key, None
    return key, PREFIX.pack(_VALUE_VERSION) + encode(record.value, _VALUE_VERSION)


def decode_consumer_group_record(key_type: int, key: memoryview, value: bytes | None) -> ConsumerGroupRecord:
    """Return the record. `key` is without its type. Raise DecodeError for an invalid record."""
    key_class, value_class = _TYPES[key_type]
    decoded_key = decode_prefix(key_class, key, 0, 0)[0]
    if value is None:
        return ConsumerGroupRecord(decoded_key, None)
    version, body = split_version(value, "value")
    if version != _VALUE_VERSION:
        raise DecodeError(f"{value_class.__name__} has version {version}, which is not supported")
    return ConsumerGroupRecord(decoded_key, decode_prefix(value_class, body, version, 0)[0])
