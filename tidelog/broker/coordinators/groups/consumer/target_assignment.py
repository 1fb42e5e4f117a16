"""Computes the target assignment of a group for its new epoch.

Source: TargetAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import GroupSpec, MemberSpec
from tidelog.broker.coordinators.groups.consumer.assignors.registry import ASSIGNORS
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.consumer.records import target_assignment, target_assignment_epoch
from tidelog.broker.coordinators.groups.consumer.subscriptions import Subscriptions
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.members.computations import Computation, Computations
from tidelog.broker.coordinators.groups.members.computed_target import (
    ComputedTarget,
    MemberTarget,
    compute_target,
    target_writes,
)
from tidelog.broker.coordinators.groups.members.lookup import NO_TARGET, TargetPartitions
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.steps import Steps, run_steps

logger = logging.getLogger(__name__)

ELEMENTS_AT_ONCE_MAX: Final = 1_000
"""Members, partitions, and topics of each member, that are assigned in one turn of the event loop: 5 ms."""


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


class TargetAssignment:
    """Computes targets.

    The target of a large group is computed in steps, between which the group may change. Until then its
    members keep the last target. Members that have left meanwhile get none, and those that have joined get
    one with the next computation, for the group epoch that they have started. A static member that has
    replaced its earlier instance meanwhile gets the target of that one.

    The caller of the command takes a requested computation from `computations`, runs it, and calls
    `on_computed`, or `computations.end` if it has failed.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.computations: Computations[ConsumerGroup, ComputedTarget] = Computations()

    def of_change(self, change: GroupChange, assignor: str, now: Moment) -> Target:
        """Return a new target of the changed member, or the last one while a new one is computed in steps."""
        group = change.group
        if self.computations.has(group.group_id):
            return last_target(change)
        members, previous = _members(change), dict(group.target)
        if change.replaced_id is not None:
            previous[change.member.member_id] = group.target_of(change.replaced_id)
        if self._is_large(change, members):
            change = change._replace(subscriptions=change.subscriptions.copy())
            topics = self._topics.of_current_image()
            assignment = _assigned(change, members, previous, assignor, topics)
            instances = {each.member_id: each.instance_id for each in members.values() if each.instance_id}
            steps = compute_target(group.group_id, assignment, previous, target_assignment, instances)
            self.computations.request(group.group_id, Computation(group, change.epoch, steps))
            return last_target(change)
        targets = run_steps(_assigned(change, members, previous, assignor, self._topics))
        records: list[CoordinatorRecord] = [
            target_assignment(group.group_id, member_id, partitions)
            for member_id, partitions in targets.items()
            if partitions != group.target.get(member_id)
        ]
        records.append(target_assignment_epoch(group.group_id, change.epoch, now.wall_ms))
        _log(group, change.epoch)
        return Target(change.epoch, targets[change.member.member_id], records)

    def on_computed(
        self, computation: Computation[ConsumerGroup, ComputedTarget], computed: ComputedTarget, now: Moment
    ) -> Writes:
        """Return the records of a target that was computed in steps, for the members that are left."""
        group, epoch = computation.group, computation.epoch
        self.computations.end(group.group_id)
        _log(group, epoch)
        targets = _of_current_members(group, computed)
        epoch_record = target_assignment_epoch(group.group_id, epoch, now.wall_ms)
        return target_writes(group.group_id, targets, group.target, target_assignment, epoch_record)

    def _is_large(self, change: GroupChange, members: Mapping[str, ConsumerMember]) -> bool:
        """Return whether the target of a group is computed in steps."""
        name_sets = change.subscriptions.name_sets()
        topic_count = len(self._topics.existing(*name_sets))
        elements = len(members) + self._topics.count_partitions(*name_sets)
        if elements <= ELEMENTS_AT_ONCE_MAX:
            for member in members.values():
                sets = change.subscriptions.name_sets_of(member)
                elements += min(sum(map(len, sets)), topic_count)
        return elements > ELEMENTS_AT_ONCE_MAX


def last_target(change: GroupChange) -> Target:
    """Return the current target of the changed member."""
    owner = change.member.member_id if change.replaced_id is None else change.replaced_id
    return Target(change.group.epochs.assignment_epoch, change.group.target_of(owner), [])


def _log(group: ConsumerGroup, epoch: int) -> None:
    logger.info("Group %s: computed a new target assignment for epoch %d", group.group_id, epoch)


def _members(change: GroupChange) -> dict[str, ConsumerMember]:
    """Return the members after the change. A static member has the position of the one that it replaces."""
    members = dict(change.group.members)
    if change.replaced_id is not None:
        members.pop(change.replaced_id, None)
    members[change.member.member_id] = change.member
    return members


def _of_current_members(group: ConsumerGroup, computed: ComputedTarget) -> Iterator[tuple[str, MemberTarget]]:
    """Yield the targets of the members that the group has now.

    A member that is no longer there may be a static one whose next instance has another member id.
    """
    member_ids = {target.member_id for target in computed}
    for target in computed:
        if target.member_id in group.members:
            yield target.member_id, target
            continue
        successor = group.static_member(target.instance_id)
        if successor is not None and successor.member_id not in member_ids:
            yield successor.member_id, target


def _assigned(
    change: GroupChange,
    members: Mapping[str, ConsumerMember],
    previous: Mapping[str, TargetPartitions],
    assignor: str,
    topics: Topics,
) -> Steps[Mapping[str, TargetPartitions]]:
    """Return the target of each member, whose last targets are `previous`."""
    # Most members share their subscription, and a set is hashed once.
    ids_of: dict[tuple[frozenset[str], ...], frozenset[UUID]] = {}
    specs = {}
    for member_id, member in members.items():
        name_sets = change.subscriptions.name_sets_of(member)
        subscribed = ids_of.get(name_sets)
        if subscribed is None:
            subscribed = ids_of[name_sets] = topics.ids_of(*name_sets)
        specs[member_id] = MemberSpec(member.instance_id, subscribed, previous.get(member_id, NO_TARGET))
        yield None
    counts = {}
    for topic_id in frozenset().union(*ids_of.values()):
        topic = topics.by_id(topic_id)
        assert topic is not None, topic_id
        counts[topic_id] = len(topic.partitions)
        yield None
    is_homogeneous = change.subscriptions.are_homogeneous(len(members))
    return (yield from ASSIGNORS[assignor](GroupSpec(specs, is_homogeneous, counts)))
