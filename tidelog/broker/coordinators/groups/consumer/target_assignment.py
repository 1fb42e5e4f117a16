"""Computes the target assignment of a group for its new epoch.

Source: TargetAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import GroupSpec, MemberSpec
from tidelog.broker.coordinators.groups.consumer.assignors.registry import ASSIGNORS
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.consumer.records import target_assignment, target_assignment_epoch
from tidelog.broker.coordinators.groups.consumer.subscriptions import Subscriptions
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.members.lookup import NO_TARGET, TargetPartitions
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord

logger = logging.getLogger(__name__)


class GroupChange(NamedTuple):
    """A group with the change of a command that is not replayed yet.

    `epoch` and `subscriptions` are the new ones. `member` is the changed member, `replaced_id` the id of the
    static member that it replaces, if any.
    """

    group: ConsumerGroup
    epoch: int
    subscriptions: Subscriptions
    member: ConsumerMember
    replaced_id: str | None


class Target(NamedTuple):
    """The target assignment of one member, its epoch, and the records of a new target of the group."""

    epoch: int
    partitions: TargetPartitions
    records: list[CoordinatorRecord]


def compute_target(change: GroupChange, assignor: str, topics: Topics, now_wall_ms: int) -> Target:
    """Return the new target of the changed member, with the records of all members whose target differs."""
    group = change.group
    members = _members(change)
    assignment = ASSIGNORS[assignor](_spec(change, members, topics)) if members else {}
    records: list[CoordinatorRecord] = [
        target_assignment(group.group_id, member_id, assignment.get(member_id, NO_TARGET))
        for member_id in members
        if assignment.get(member_id, NO_TARGET) != group.target.get(member_id)
    ]
    records.append(target_assignment_epoch(group.group_id, change.epoch, now_wall_ms))
    text = "Group %s: computed a new target assignment for epoch %d with the assignor %s"
    logger.info(text, group.group_id, change.epoch, assignor)
    return Target(change.epoch, assignment.get(change.member.member_id, NO_TARGET), records)


def _members(change: GroupChange) -> dict[str, ConsumerMember]:
    """Return the members after the change. A static member has the position of the one that it replaces."""
    members = dict(change.group.members)
    if change.replaced_id is not None:
        members.pop(change.replaced_id, None)
    members[change.member.member_id] = change.member
    return members


def _spec(change: GroupChange, members: dict[str, ConsumerMember], topics: Topics) -> GroupSpec:
    group = change.group
    # Most members share their subscription, and a set is hashed once.
    ids_of: dict[tuple[frozenset[str], ...], frozenset[UUID]] = {}
    specs = {}
    for member_id, member in members.items():
        name_sets = change.subscriptions.name_sets_of(member)
        subscribed = ids_of.get(name_sets)
        if subscribed is None:
            subscribed = ids_of[name_sets] = topics.ids_of(*name_sets)
        assigned = group.target_of(member_id)
        if member is change.member and change.replaced_id is not None:
            assigned = group.target_of(change.replaced_id)
        specs[member_id] = MemberSpec(member.instance_id, subscribed, assigned)
    counts = {}
    for topic_id in frozenset().union(*ids_of.values()):
        topic = topics.by_id(topic_id)
        assert topic is not None, topic_id
        counts[topic_id] = len(topic.partitions)
    return GroupSpec(
        members=specs,
        is_homogeneous=change.subscriptions.are_homogeneous(len(members)),
        partition_counts=counts,
        owners=group.target_owners,
    )
