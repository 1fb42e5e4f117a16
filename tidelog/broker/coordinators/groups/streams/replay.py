"""Applies a record of the log to its streams group."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.records.streams_group_records import StreamsGroupRecord
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.tasks import Tasks
from tidelog.broker.coordinators.groups.streams.topology import StreamsTopology
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


def deletes_streams_group(record: StreamsGroupRecord) -> bool:
    """Return whether a record deletes its whole group."""
    return record.value is None and isinstance(record.key, StreamsGroupMetadataKey)


def replay_streams_value(group: StreamsGroup, record: StreamsGroupRecord) -> None:
    """Apply a record with a value."""
    match record:
        case (_, StreamsGroupMetadataValue() as value):
            group.epochs.set_group_epoch(value.epoch, value.metadata_hash)
            group.set_validated_topology_epoch(value.validated_topology_epoch)
            configs = value.last_assignment_configs or ()
            group.set_assignment_configs({config.key: config.value for config in configs})
        case (_, StreamsGroupTopologyValue() as value):
            group.set_topology(StreamsTopology.from_value(value))
        case (StreamsGroupMemberMetadataKey(member_id=member_id), StreamsGroupMemberMetadataValue() as value):
            member = group.members.get(member_id) or StreamsMember(member_id=member_id)
            group.update_member(member.with_metadata(value))
        case (_, StreamsGroupTargetAssignmentMetadataValue() as value):
            group.epochs.set_assignment_epoch(value.assignment_epoch, value.assignment_timestamp)
        case (
            StreamsGroupTargetAssignmentMemberKey(member_id=member_id),
            StreamsGroupTargetAssignmentMemberValue() as value,
        ):
            tasks = Tasks.of(value.active_tasks, value.standby_tasks, value.warmup_tasks)
            group.set_target(member_id, tasks)
        case (
            StreamsGroupCurrentMemberAssignmentKey(member_id=member_id),
            StreamsGroupCurrentMemberAssignmentValue() as value,
        ):
            member = group.members.get(member_id) or StreamsMember(member_id=member_id)
            group.update_member(member.with_assignment(value))


def replay_streams_tombstone(group: StreamsGroup, record: StreamsGroupRecord) -> None:
    """Apply a record that deletes a part of a group."""
    match record.key:
        case StreamsGroupTopologyKey():
            group.set_topology(None)
        case StreamsGroupMemberMetadataKey(member_id=member_id):
            group.remove_member(member_id)
        case StreamsGroupTargetAssignmentMetadataKey():
            group.epochs.delete_assignment_epoch()
        case StreamsGroupTargetAssignmentMemberKey(member_id=member_id):
            group.set_target(member_id, None)
        case StreamsGroupCurrentMemberAssignmentKey(member_id=member_id):
            member = group.members.get(member_id)
            if member is not None:
                group.update_member(member.with_assignment(None))
