"""Descriptions of streams groups (KIP-1071) for admin clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

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
    topics = _topics_of_subtopologies(group.topology)
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=STREAMS_GROUP_TYPE,
        protocol=_ASSIGNOR,
        members=tuple(_member(member, topics) for member in group.members),
        coordinator_id=coordinator_id,
        group_type=STREAMS_GROUP_TYPE,
        epochs=ConsumerGroupEpochs(group.group_epoch, group.assignment_epoch),
    )


def _topics_of_subtopologies(topology: messages.Topology | None) -> dict[str, tuple[str, ...]]:
    """Return the topics that each subtopology reads."""
    subtopologies = () if topology is None else topology.subtopologies or ()
    return {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        for each in subtopologies
    }


def _member(member: messages.Member, topics: Mapping[str, Iterable[str]]) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscription=Subscription(
            topics=tuple(sorted({name for names in topics.values() for name in names})),
            rack_id=member.rack_id,
            group_instance_id=member.instance_id,
        ),
        assignment=_assignment(member.assignment, topics),
        member_epoch=member.member_epoch,
        target_assignment=_assignment(member.target_assignment, topics),
        uses_classic_protocol=member.is_classic,
    )


def _assignment(assignment: messages.Assignment, topics: Mapping[str, Iterable[str]]) -> Assignment:
    return Assignment(
        partitions=tuple(
            TopicPartition(topic, index)
            for tasks in assignment.active_tasks
            for topic in topics.get(tasks.subtopology_id, ())
            for index in tasks.partitions
        )
    )
