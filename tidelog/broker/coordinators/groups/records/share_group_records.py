"""The records of share groups (KIP-932), as values and as bytes.

| key type | key and value | content |
|----------|---------------|---------|
| 10 | ShareGroupMemberMetadata | subscription and client of a member |
| 11 | ShareGroupMetadata | group epoch, hash of the metadata of the subscribed topics |
| 12 | ShareGroupTargetAssignmentMetadata | assignment epoch |
| 13 | ShareGroupTargetAssignmentMember | target assignment of a member |
| 14 | ShareGroupCurrentMemberAssignment | epoch and partitions of a member |
| 15 | ShareGroupStatePartitionMetadata | partitions with a state at the share coordinator |

Source: CoordinatorRecordType of Apache Kafka 4.3. All values have version 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.coordinators.groups.records.typed_records import TypedRecords
from tidelog.protocol.coordinator_records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

ShareGroupKey: TypeAlias = (
    ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
ShareGroupValue: TypeAlias = (
    ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupTargetAssignmentMetadataValue
    | ShareGroupTargetAssignmentMemberValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue
)

SHARE_GROUP_RECORDS: Final[TypedRecords[ShareGroupKey, ShareGroupValue]] = TypedRecords(
    {
        10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
        11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
        12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
        13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
        14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
        15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    }
)


class ShareGroupRecord(NamedTuple):
    """One record of a share group; a value of None deletes the key."""

    key: ShareGroupKey
    value: ShareGroupValue | None
