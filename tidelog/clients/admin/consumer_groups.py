"""Descriptions of consumer groups (KIP-848) for admin clients."""

from __future__ import annotations

from tidelog.clients.admin.types import ConsumerGroupEpochs, GroupDescription, GroupMember
from tidelog.clients.groups.assignors.protocol import PROTOCOL_TYPE
from tidelog.clients.groups.assignors.subscription import Assignment, Subscription
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages import consumer_group_describe as messages

GROUP_TYPE = "consumer"
_CLASSIC_MEMBER = 0


def description_of(group: messages.DescribedGroup, coordinator_id: BrokerId) -> GroupDescription:
    """Return the description of a group in a response of ConsumerGroupDescribe."""
    return GroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=PROTOCOL_TYPE,
        protocol=group.assignor_name,
        members=tuple(_member(member) for member in group.members),
        coordinator_id=coordinator_id,
        group_type=GROUP_TYPE,
        epochs=ConsumerGroupEpochs(group.group_epoch, group.assignment_epoch),
    )


def _member(member: messages.Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscription=Subscription(
            topics=member.subscribed_topic_names,
            rack_id=member.rack_id,
            group_instance_id=member.instance_id,
        ),
        assignment=_assignment(member.assignment),
        member_epoch=member.member_epoch,
        target_assignment=_assignment(member.target_assignment),
        subscribed_pattern=member.subscribed_topic_regex or None,
        uses_classic_protocol=member.member_type == _CLASSIC_MEMBER,
    )


def _assignment(assignment: messages.Assignment) -> Assignment:
    return Assignment(
        partitions=tuple(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )
