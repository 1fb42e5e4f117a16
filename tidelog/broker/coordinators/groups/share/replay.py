"""Applies a record of the log to its share group."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.members.topic_names import NamesOfCommand
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.share.member import ShareMember, partitions_of
from tidelog.broker.coordinators.groups.share.state_partitions import StatePartitions
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


def deletes_share_group(record: ShareGroupRecord) -> bool:
    """Return whether a record deletes its whole group."""
    return record.value is None and isinstance(record.key, ShareGroupMetadataKey)


def replay_share_value(group: ShareGroup, record: ShareGroupRecord, names: NamesOfCommand) -> None:
    """Apply a record with a value; `names` has the topics of a member that a command has written."""
    match record:
        case (_, ShareGroupMetadataValue() as value):
            group.epochs.set_group_epoch(value.epoch, value.metadata_hash)
        case (ShareGroupMemberMetadataKey(member_id=member_id), ShareGroupMemberMetadataValue() as value):
            member = group.members.get(member_id) or ShareMember(member_id=member_id)
            group.update_member(member.with_metadata(value, names.of_record(value.subscribed_topic_names)))
        case (_, ShareGroupTargetAssignmentMetadataValue() as value):
            group.epochs.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
        case (
            ShareGroupTargetAssignmentMemberKey(member_id=member_id),
            ShareGroupTargetAssignmentMemberValue() as value,
        ):
            group.set_target(member_id, partitions_of(value.topic_partitions))
        case (
            ShareGroupCurrentMemberAssignmentKey(member_id=member_id),
            ShareGroupCurrentMemberAssignmentValue() as value,
        ):
            member = group.members.get(member_id) or ShareMember(member_id=member_id)
            group.update_member(member.with_assignment(value))
        case (_, ShareGroupStatePartitionMetadataValue() as value):
            group.set_state_partitions(StatePartitions.from_value(value))


def replay_share_tombstone(group: ShareGroup, record: ShareGroupRecord) -> None:
    """Apply a record that deletes a part of a group."""
    match record.key:
        case ShareGroupMemberMetadataKey(member_id=member_id):
            group.remove_member(member_id)
        case ShareGroupTargetAssignmentMetadataKey():
            group.epochs.delete_assignment_epoch()
        case ShareGroupTargetAssignmentMemberKey(member_id=member_id):
            group.set_target(member_id, None)
        case ShareGroupCurrentMemberAssignmentKey(member_id=member_id):
            member = group.members.get(member_id)
            if member is not None:
                group.update_member(member.with_assignment(None))
        case ShareGroupStatePartitionMetadataKey():
            group.set_state_partitions(StatePartitions())
