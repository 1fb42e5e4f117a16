"""The records that commands of consumer groups write.

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from tidelog.broker.coordinators.groups.consumer.member import AssignedPartitions, ConsumerMember
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.records.consumer_group_records import ConsumerGroupRecord
from tidelog.protocol.coordinator_records.consumer_group import (
    AssignedTopicPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
)

_MemberKey: TypeAlias = (
    ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupMemberMetadataKey
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> ConsumerGroupRecord:
    """Return the record of a new group epoch."""
    return ConsumerGroupRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def partition_metadata_tombstone(group_id: str) -> ConsumerGroupRecord:
    """Return the record that deletes the partition metadata of an older version of Kafka."""
    return ConsumerGroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_metadata(group_id: str, member: ConsumerMember) -> ConsumerGroupRecord:
    """Return the record of a member's subscription and client."""
    return ConsumerGroupRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names.ordered,
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def target_assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> ConsumerGroupRecord:
    """Return the record of a new assignment epoch."""
    return ConsumerGroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_assignment(group_id: str, member_id: str, partitions: TargetPartitions) -> ConsumerGroupRecord:
    """Return the record of a member's target assignment."""
    return ConsumerGroupRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=tuple(
                TargetTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indexes)))
                for topic_id, indexes in partitions.items()
            )
        ),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> ConsumerGroupRecord:
    """Return the record of a member's epoch, state and partitions."""
    return ConsumerGroupRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=_topic_partitions(member.assigned),
            partitions_pending_revocation=_topic_partitions(member.pending_revocation),
        ),
    )


def regular_expression(
    group_id: str, expression: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> ConsumerGroupRecord:
    """Return the record of the topics that match an expression."""
    return ConsumerGroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression),
        ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(topics)), version=version, timestamp=timestamp_ms
        ),
    )


def regular_expression_tombstone(group_id: str, expression: str) -> ConsumerGroupRecord:
    """Return the record that deletes an expression."""
    return ConsumerGroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression), None
    )


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerGroupRecord]:
    """Return the records that delete a member. Replay needs them in this order."""
    return [
        *_tombstones(ConsumerGroupCurrentMemberAssignmentKey, group_id, [member_id]),
        *_tombstones(ConsumerGroupTargetAssignmentMemberKey, group_id, [member_id]),
        *_tombstones(ConsumerGroupMemberMetadataKey, group_id, [member_id]),
    ]


def group_tombstones(
    group_id: str, member_ids: Collection[str], expressions: Iterable[str]
) -> list[ConsumerGroupRecord]:
    """Return the records that delete a group with its members and expressions."""
    return [
        *_tombstones(ConsumerGroupCurrentMemberAssignmentKey, group_id, member_ids),
        *_tombstones(ConsumerGroupTargetAssignmentMemberKey, group_id, member_ids),
        ConsumerGroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *_tombstones(ConsumerGroupMemberMetadataKey, group_id, member_ids),
        *(regular_expression_tombstone(group_id, expression) for expression in expressions),
        partition_metadata_tombstone(group_id),
        ConsumerGroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _tombstones(
    key_type: type[_MemberKey], group_id: str, member_ids: Iterable[str]
) -> list[ConsumerGroupRecord]:
    return [
        ConsumerGroupRecord(key_type(group_id=group_id, member_id=member_id), None)
        for member_id in member_ids
    ]


def _topic_partitions(assigned: AssignedPartitions) -> tuple[AssignedTopicPartitions, ...]:
    return tuple(
        AssignedTopicPartitions(
            topic_id=topic_id, partitions=tuple(epochs), assignment_epochs=tuple(epochs.values())
        )
        for topic_id, epochs in assigned.items()
    )
