"""The records of streams groups (KIP-1071), as values and as bytes.

| key type | key and value | content |
|----------|---------------|---------|
| 17 | StreamsGroupMetadata | group epoch, hash of the metadata of the topics, validated topology epoch |
| 19 | StreamsGroupMemberMetadata | process, endpoint, tags and client of a member |
| 20 | StreamsGroupTargetAssignmentMetadata | assignment epoch |
| 21 | StreamsGroupTargetAssignmentMember | target tasks of a member |
| 22 | StreamsGroupCurrentMemberAssignment | epoch, state and tasks of a member |
| 23 | StreamsGroupTopology | subtopologies, their topics, and the topology epoch |

Source: CoordinatorRecordType of Apache Kafka 4.3. All values have version 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.coordinators.groups.records.typed_records import TypedRecords
from tidelog.protocol.coordinator_records.streams_group import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

StreamsGroupKey: TypeAlias = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)
StreamsGroupValue: TypeAlias = (
    StreamsGroupMetadataValue
    | StreamsGroupMemberMetadataValue
    | StreamsGroupTargetAssignmentMetadataValue
    | StreamsGroupTargetAssignmentMemberValue
    | StreamsGroupCurrentMemberAssignmentValue
    | StreamsGroupTopologyValue
)

STREAMS_GROUP_RECORDS: Final[TypedRecords[StreamsGroupKey, StreamsGroupValue]] = TypedRecords(
    {
        17: (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
        19: (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
        20: (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
        21: (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
        22: (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
        23: (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
    }
)


class StreamsGroupRecord(NamedTuple):
    """One record of a streams group; a value of None deletes the key."""

    key: StreamsGroupKey
    value: StreamsGroupValue | None
