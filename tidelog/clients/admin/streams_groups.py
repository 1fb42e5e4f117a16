"""Descriptions of streams groups (KIP-1071) for admin clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.clients.admin.streams_topology import (
    StreamsMember,
    StreamsSubtopology,
    StreamsTasks,
    StreamsTopology,
)
from tidelog.clients.admin.types import ConsumerGroupEpochs, GroupDescription, GroupMember
from tidelog.clients.groups.assignors.subscription import Assignment, Subscription
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages import streams_group_describe as messages

STREAMS_GROUP_TYPE: Final = "streams"
_ASSIGNOR: Final = "sticky"
"""The only assignor of streams groups; responses do not name it."""


def description_of(group: messages.DescribedGroup, coordinator_id: BrokerId) -> GroupDescription:
    """Return the description of a group in a response of StreamsGroupDescribe.

    The assignment of a member has the partitions that its active tasks read.
    """
    topology = None if group.topology is None else _topology(group.topology)
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=STREAMS_GROUP_TYPE,
        protocol=_ASSIGNOR,
        members=tuple(_member(member, topology) for member in group.members),
        coordinator_id=coordinator_id,
        group_type=STREAMS_GROUP_TYPE,
        epochs=ConsumerGroupEpochs(group.group_epoch, group.assignment_epoch),
        topology=topology,
    )


def _topology(topology: messages.Topology) -> StreamsTopology:
    return StreamsTopology(
        epoch=topology.epoch,
        subtopologies=tuple(
            StreamsSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                repartition_source_topics=tuple(topic.name for topic in each.repartition_source_topics),
                changelog_topics=tuple(topic.name for topic in each.state_changelog_topics),
            )
            for each in topology.subtopologies or ()
        ),
    )


def _member(member: messages.Member, topology: StreamsTopology | None) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscription=Subscription(
            topics=() if topology is None else tuple(sorted(topology.input_topics)),
            rack_id=member.rack_id,
            group_instance_id=member.instance_id,
        ),
        assignment=_assignment(member.assignment, topology),
        member_epoch=member.member_epoch,
        target_assignment=_assignment(member.target_assignment, topology),
        uses_classic_protocol=member.is_classic,
        streams=StreamsMember(
            process_id=member.process_id,
            topology_epoch=member.topology_epoch,
            tasks=_tasks(member.assignment),
            target_tasks=_tasks(member.target_assignment),
        ),
    )


def _assignment(assignment: messages.Assignment, topology: StreamsTopology | None) -> Assignment:
    subtopologies = () if topology is None else topology.subtopologies
    topics = {each.subtopology_id: each.input_topics for each in subtopologies}
    return Assignment(
        partitions=tuple(
            TopicPartition(topic, index)
            for tasks in assignment.active_tasks
            for topic in topics.get(tasks.subtopology_id, ())
            for index in tasks.partitions
        )
    )


def _tasks(assignment: messages.Assignment) -> StreamsTasks:
    def by_subtopology(tasks: Iterable[messages.TaskIds]) -> dict[str, tuple[int, ...]]:
        return {each.subtopology_id: each.partitions for each in tasks}

    return StreamsTasks(
        active=by_subtopology(assignment.active_tasks),
        standby=by_subtopology(assignment.standby_tasks),
        warmup=by_subtopology(assignment.warmup_tasks),
    )
