"""ConsumerGroupDescribe: the epochs, the members and the assignments of a consumer group.

Source: ConsumerGroup.asDescribedGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from tidelog.protocol.steps import Steps

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe_consumer_group(
    group: ConsumerGroup, topics: Topics, default_assignor: str
) -> Steps[DescribedGroup]:
    """Return the description of a group, with a step for each member."""
    members = []
    for member in list(group.members.values()):
        members.append(_member(group, member, topics))
        yield None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epochs.group_epoch,
        assignment_epoch=group.epochs.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=tuple(members),
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    current: dict[UUID, list[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, epochs in partitions.items():
            current.setdefault(topic_id, []).extend(epochs)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names.ordered,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(current, topics),
        target_assignment=_assignment(group.target_of(member.member_id), topics),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[UUID, Iterable[int]], topics: Topics) -> Assignment:
    assigned = []
    for topic_id, indexes in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            assigned.append(
                TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(indexes)))
            )
    return Assignment(topic_partitions=tuple(assigned))
