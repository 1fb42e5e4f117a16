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

from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.coordinators.groups.records.typed_records import TypedRecords
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

CONSUMER_GROUP_RECORDS: Final[TypedRecords[ConsumerGroupKey, ConsumerGroupValue]] = TypedRecords(
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


class ConsumerGroupRecord(NamedTuple):
    """One record of a consumer group; a value of None deletes the key."""

    key: ConsumerGroupKey
    value: ConsumerGroupValue | None
