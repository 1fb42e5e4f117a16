"""Applies a record of the log to its consumer group."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.consumer.subscriptions import ResolvedExpression
from tidelog.broker.coordinators.groups.members.topic_names import NamesOfCommand
from tidelog.broker.coordinators.groups.records.consumer_group_records import ConsumerGroupRecord
from tidelog.protocol.coordinator_records.consumer_group import (
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
)


def deletes_group(record: ConsumerGroupRecord) -> bool:
    """Return whether a record deletes its whole group."""
    return record.value is None and isinstance(record.key, ConsumerGroupMetadataKey)


def replay_value(group: ConsumerGroup, record: ConsumerGroupRecord, names: NamesOfCommand) -> None:
    """Apply a record with a value; `names` has the topics of a member that a command has written."""
    match record:
        case (_, ConsumerGroupMetadataValue() as value):
            group.epochs.set_group_epoch(value.epoch, value.metadata_hash)
        case (
            ConsumerGroupMemberMetadataKey(member_id=member_id),
            ConsumerGroupMemberMetadataValue() as value,
        ):
            member = group.members.get(member_id) or ConsumerMember(member_id=member_id)
            group.update_member(member.with_metadata(value, names.of_record(value.subscribed_topic_names)))
        case (_, ConsumerGroupTargetAssignmentMetadataValue() as value):
            group.epochs.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
        case (
            ConsumerGroupTargetAssignmentMemberKey(member_id=member_id),
            ConsumerGroupTargetAssignmentMemberValue() as value,
        ):
            partitions = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}
            group.set_target(member_id, partitions)
        case (
            ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id),
            ConsumerGroupCurrentMemberAssignmentValue() as value,
        ):
            member = group.members.get(member_id) or ConsumerMember(member_id=member_id)
            group.update_member(member.with_assignment(value))
        case (
            ConsumerGroupRegularExpressionKey(regular_expression=expression),
            ConsumerGroupRegularExpressionValue() as value,
        ):
            resolved = ResolvedExpression(frozenset(value.topics), value.version, value.timestamp)
            group.resolve(expression, resolved)
        case (ConsumerGroupPartitionMetadataKey(), _):
            group.record_partition_metadata(True)


def replay_tombstone(group: ConsumerGroup, record: ConsumerGroupRecord) -> None:
    """Apply a record that deletes a part of a group."""
    match record.key:
        case ConsumerGroupMemberMetadataKey(member_id=member_id):
            group.remove_member(member_id)
        case ConsumerGroupTargetAssignmentMetadataKey():
            group.epochs.delete_assignment_epoch()
        case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
            group.set_target(member_id, None)
        case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
            member = group.members.get(member_id)
            if member is not None:
                group.update_member(member.with_assignment(None))
        case ConsumerGroupRegularExpressionKey(regular_expression=expression):
            group.resolve(expression, None)
        case ConsumerGroupPartitionMetadataKey():
            group.record_partition_metadata(False)
