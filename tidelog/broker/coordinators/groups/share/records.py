"""The records that commands of share groups write.

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.broker.coordinators.groups.share.member import ShareMember
from tidelog.broker.coordinators.groups.share.state_partitions import StatePartitions
from tidelog.protocol.coordinator_records.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopicPartitions,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> ShareGroupRecord:
    """Return the record of a new group epoch."""
    return ShareGroupRecord(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata(group_id: str, member: ShareMember) -> ShareGroupRecord:
    """Return the record of a member's subscription and client."""
    return ShareGroupRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names.ordered,
        ),
    )


def target_assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> ShareGroupRecord:
    """Return the record of a new assignment epoch."""
    return ShareGroupRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_assignment(group_id: str, member_id: str, partitions: TargetPartitions) -> ShareGroupRecord:
    """Return the record of a member's target assignment."""
    return ShareGroupRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(topic_partitions=_topic_partitions(partitions)),
    )


def current_assignment(group_id: str, member: ShareMember) -> ShareGroupRecord:
    """Return the record of a member's epoch and partitions."""
    return ShareGroupRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=_topic_partitions(member.assigned),
        ),
    )


def state_partitions(group_id: str, partitions: StatePartitions) -> ShareGroupRecord:
    """Return the record of the partitions with a state at the share coordinator."""
    return ShareGroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), partitions.to_value())


def member_tombstones(group_id: str, member_id: str) -> list[ShareGroupRecord]:
    """Return the records that delete a member. Replay needs them in this order."""
    return [
        ShareGroupRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        ShareGroupRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        ShareGroupRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def share_group_tombstones(group_id: str, member_ids: Collection[str]) -> list[ShareGroupRecord]:
    """Return the records that delete a group with its members."""
    return [
        *(record for member_id in member_ids for record in member_tombstones(group_id, member_id)),
        ShareGroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        ShareGroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        ShareGroupRecord(ShareGroupMetadataKey(group_id=group_id), None),
    ]


def _topic_partitions(partitions: TargetPartitions) -> tuple[ShareTopicPartitions, ...]:
    return tuple(
        ShareTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indexes)))
        for topic_id, indexes in partitions.items()
    )
