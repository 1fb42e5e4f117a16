"""Computes the target assignment of a share group for its new epoch.

Source: TargetAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.members.computations import Computation, Computations
from tidelog.broker.coordinators.groups.members.computed_target import (
    ComputedTarget,
    compute_target,
    target_writes,
)
from tidelog.broker.coordinators.groups.members.lookup import NO_TARGET, TargetPartitions
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.share.member import ShareMember
from tidelog.broker.coordinators.groups.share.records import target_assignment, target_assignment_epoch
from tidelog.broker.coordinators.groups.share.simple_assignor import ShareMemberSpec, assign
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.steps import Steps, run_steps

logger = logging.getLogger(__name__)

ELEMENTS_AT_ONCE_MAX: Final = 1_000
"""Members, partitions, and topics of each member, that are assigned in one turn of the event loop: 5 ms."""


class ShareTarget(NamedTuple):
    """The target of one member, and its epoch."""

    epoch: int
    partitions: TargetPartitions


class ShareTargetAssignment:
    """Computes targets.

    The target of a large group is computed in steps, between which the group may change. Until then its
    members keep the last target. Members that have left meanwhile get none, and those that have joined get
    one with the next computation, for the group epoch that they have started.

    The caller of the command takes a requested computation from `computations`, runs it, and calls
    `on_computed`, or `computations.end` if it has failed.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self.computations: Computations[ShareGroup, ComputedTarget] = Computations()

    def of_member(
        self,
        group: ShareGroup,
        epoch: int,
        member: ShareMember,
        records: list[CoordinatorRecord],
        now: Moment,
    ) -> ShareTarget:
        """Return a new target of a member, or the last one while a new one is computed in steps.

        Add the records of a new target of the group.
        """
        last = ShareTarget(group.epochs.assignment_epoch, group.target_of(member.member_id))
        if self.computations.has(group.group_id):
            return last
        members = {**group.members, member.member_id: member}
        assignable = {
            topic_id: each.partitions for topic_id, each in group.state_partitions.initialized.items()
        }
        if self._is_large(members, assignable):
            previous = dict(group.target)
            assignment = _assigned(members, previous, assignable, self._topics.of_current_image())
            steps = compute_target(group.group_id, assignment, previous, target_assignment, {})
            self.computations.request(group.group_id, Computation(group, epoch, steps))
            return last
        targets = run_steps(_assigned(members, group.target, assignable, self._topics))
        records += [
            target_assignment(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if target != group.target.get(member_id)
        ]
        records.append(target_assignment_epoch(group.group_id, epoch, now.wall_ms))
        _log(group, epoch)
        return ShareTarget(epoch, targets[member.member_id])

    def on_computed(
        self, computation: Computation[ShareGroup, ComputedTarget], computed: ComputedTarget, now: Moment
    ) -> Writes:
        """Return the records of a target that was computed in steps, for the members that are left."""
        group, epoch = computation.group, computation.epoch
        self.computations.end(group.group_id)
        _log(group, epoch)
        targets = ((each.member_id, each) for each in computed if each.member_id in group.members)
        epoch_record = target_assignment_epoch(group.group_id, epoch, now.wall_ms)
        return target_writes(group.group_id, targets, group.target, target_assignment, epoch_record)

    def _is_large(
        self, members: Mapping[str, ShareMember], assignable: Mapping[UUID, frozenset[int]]
    ) -> bool:
        """Return whether the target of a group is computed in steps."""
        elements = len(members) + sum(map(len, assignable.values()))
        if elements <= ELEMENTS_AT_ONCE_MAX:
            topic_count = len(assignable)
            for member in members.values():
                elements += min(len(member.subscribed_topic_names.ordered), topic_count)
        return elements > ELEMENTS_AT_ONCE_MAX


def _log(group: ShareGroup, epoch: int) -> None:
    logger.info("Group %s: computed a new target assignment for epoch %d", group.group_id, epoch)


def _assigned(
    members: Mapping[str, ShareMember],
    previous: Mapping[str, TargetPartitions],
    assignable: Mapping[UUID, frozenset[int]],
    topics: Topics,
) -> Steps[Mapping[str, TargetPartitions]]:
    """Return the target of each member, whose last targets are `previous`."""
    # Most members share their subscription, and a set is hashed once.
    ids_of: dict[frozenset[str], frozenset[UUID]] = {}
    specs = {}
    for member_id, member in members.items():
        names = member.subscribed_topic_names.as_set
        subscribed = ids_of.get(names)
        if subscribed is None:
            subscribed = ids_of[names] = topics.ids_of(names)
        specs[member_id] = ShareMemberSpec(subscribed, previous.get(member_id, NO_TARGET))
        yield None
    return (yield from assign(specs, assignable))
