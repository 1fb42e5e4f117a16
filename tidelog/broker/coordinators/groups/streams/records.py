"""The records that commands of streams groups write.

Source: StreamsCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from tidelog.broker.coordinators.groups.records.streams_group_records import StreamsGroupRecord
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.tasks import TaskEpochs, Tasks, TaskSet
from tidelog.broker.coordinators.groups.streams.topology import StreamsTopology
from tidelog.protocol.coordinator_records.streams_group import (
    CurrentTaskIds,
    KeyValue,
    LastAssignmentConfig,
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
    TargetTaskIds,
)

_MemberKey: TypeAlias = (
    StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupMemberMetadataKey
)


def group_epoch(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> StreamsGroupRecord:
    """Return the record of a new group epoch."""
    return StreamsGroupRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=tuple(
                LastAssignmentConfig(key=key, value=value)
                for key, value in sorted(assignment_configs.items())
            ),
        ),
    )


def topology_record(group_id: str, topology: StreamsTopology) -> StreamsGroupRecord:
    """Return the record of the topology."""
    return StreamsGroupRecord(StreamsGroupTopologyKey(group_id=group_id), topology.to_value())


def member_metadata(group_id: str, member: StreamsMember) -> StreamsGroupRecord:
    """Return the record of a member's process and client."""
    return StreamsGroupRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=member.user_endpoint,
            client_tags=tuple(
                KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())
            ),
        ),
    )


def target_assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> StreamsGroupRecord:
    """Return the record of a new assignment epoch."""
    return StreamsGroupRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_assignment(group_id: str, member_id: str, tasks: Tasks) -> StreamsGroupRecord:
    """Return the record of a member's target assignment."""
    return StreamsGroupRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_target_tasks(tasks.active),
            standby_tasks=_target_tasks(tasks.standby),
            warmup_tasks=_target_tasks(tasks.warmup),
        ),
    )


def current_assignment(group_id: str, member: StreamsMember) -> StreamsGroupRecord:
    """Return the record of a member's epoch, state and tasks."""
    assigned, pending = member.assigned, member.pending_revocation
    return StreamsGroupRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            active_tasks=_active_tasks(assigned.active),
            standby_tasks=_replica_tasks(assigned.standby),
            warmup_tasks=_replica_tasks(assigned.warmup),
            active_tasks_pending_revocation=_active_tasks(pending.active),
            standby_tasks_pending_revocation=_replica_tasks(pending.standby),
            warmup_tasks_pending_revocation=_replica_tasks(pending.warmup),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[StreamsGroupRecord]:
    """Return the records that delete a member. Replay needs them in this order."""
    return [
        *_tombstones(StreamsGroupCurrentMemberAssignmentKey, group_id, [member_id]),
        *_tombstones(StreamsGroupTargetAssignmentMemberKey, group_id, [member_id]),
        *_tombstones(StreamsGroupMemberMetadataKey, group_id, [member_id]),
    ]


def streams_group_tombstones(group_id: str, member_ids: Collection[str]) -> list[StreamsGroupRecord]:
    """Return the records that delete a group with its members."""
    return [
        *_tombstones(StreamsGroupCurrentMemberAssignmentKey, group_id, member_ids),
        *_tombstones(StreamsGroupTargetAssignmentMemberKey, group_id, member_ids),
        StreamsGroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *_tombstones(StreamsGroupMemberMetadataKey, group_id, member_ids),
        StreamsGroupRecord(StreamsGroupMetadataKey(group_id=group_id), None),
        StreamsGroupRecord(StreamsGroupTopologyKey(group_id=group_id), None),
    ]


def _tombstones(
    key_type: type[_MemberKey], group_id: str, member_ids: Iterable[str]
) -> list[StreamsGroupRecord]:
    return [
        StreamsGroupRecord(key_type(group_id=group_id, member_id=member_id), None) for member_id in member_ids
    ]


def _target_tasks(tasks: TaskSet) -> tuple[TargetTaskIds, ...]:
    return tuple(
        TargetTaskIds(subtopology_id=subtopology_id, partitions=tuple(sorted(tasks[subtopology_id])))
        for subtopology_id in sorted(tasks)
    )


def _replica_tasks(tasks: TaskSet) -> tuple[CurrentTaskIds, ...]:
    return tuple(
        CurrentTaskIds(subtopology_id=subtopology_id, partitions=tuple(sorted(tasks[subtopology_id])))
        for subtopology_id in sorted(tasks)
    )


def _active_tasks(tasks: TaskEpochs) -> tuple[CurrentTaskIds, ...]:
    result = []
    for subtopology_id in sorted(tasks):
        partitions = tuple(sorted(tasks[subtopology_id]))
        epochs = tuple(tasks[subtopology_id][index] for index in partitions)
        result.append(
            CurrentTaskIds(subtopology_id=subtopology_id, partitions=partitions, assignment_epochs=epochs)
        )
    return tuple(result)
