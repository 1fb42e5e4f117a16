"""ShareGroupDescribe: the epochs, the members and the assignments of a share group.

Source: ShareGroup.asDescribedGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.share.member import ShareMember
from tidelog.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from tidelog.protocol.steps import Steps


def describe_share_group(group: ShareGroup, topics: Topics, assignor: str) -> Steps[DescribedGroup]:
    """Return the description of a group, with a step for each member."""
    members = []
    for member in list(group.members.values()):
        members.append(_member(member, topics))
        yield None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epochs.group_epoch,
        assignment_epoch=group.epochs.assignment_epoch,
        assignor_name=assignor,
        members=tuple(members),
    )


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names.ordered,
        assignment=_assignment(member.assigned, topics),
    )


def _assignment(partitions: TargetPartitions, topics: Topics) -> Assignment:
    assigned = []
    for topic_id, indexes in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            assigned.append(
                TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(indexes)))
            )
    return Assignment(topic_partitions=tuple(assigned))
