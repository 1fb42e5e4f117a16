"""Computes the target assignment of a streams group for its new epoch.

Source: TargetAssignmentBuilder and GroupMetadataManager.maybeUpdateStreamsTargetAssignment of Apache Kafka
4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.coordinators.groups.members.computations import Computation, Computations
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.streams.config import StreamsSettings
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.records import target_assignment, target_assignment_epoch
from tidelog.broker.coordinators.groups.streams.sticky_assignor import MemberSpec, SubtopologySpec, assign
from tidelog.broker.coordinators.groups.streams.tasks import NO_TASKS, Tasks
from tidelog.broker.coordinators.groups.streams.timers import StreamsTimers
from tidelog.broker.coordinators.groups.streams.topic_configuration import (
    ConfiguredSubtopology,
    ConfiguredTopology,
)
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.steps import Steps, run_steps

logger = logging.getLogger(__name__)

_INITIAL_DELAY: Final = "Assignment delayed due to the configured initial rebalance delay."
_INTERVAL: Final = "Assignment delayed due to the configured assignment interval."


ELEMENTS_AT_ONCE_MAX: Final = 1_000
"""Members and tasks, with their replicas, that are assigned in one turn of the event loop. It takes 5 ms."""


Targets: TypeAlias = dict[str, Tasks]
"""The targets of the members of a group, by member id."""


class Target(NamedTuple):
    """The target of one member, and its epoch; `delay` is the reason why no new one was computed, if any."""

    epoch: int
    tasks: Tasks
    delay: str | None = None


class TargetAssignment:
    """Computes targets, at most one in each assignment interval, and none during the delay of a new group.

    The target of a large group is computed in steps, between which the group may change. Until then its
    members keep the last target. Members that have left meanwhile get none, and those that have joined get
    one with the next computation, for the group epoch that they have started.

    The caller of the command takes a requested computation from `computations`, runs it, and calls
    `on_computed`, or `computations.end` if it has failed.
    """

    def __init__(self, timers: StreamsTimers) -> None:
        self._timers = timers
        self.computations: Computations[StreamsGroup, Targets] = Computations()

    def of_member(
        self,
        group: StreamsGroup,
        epoch: int,
        member: StreamsMember,
        configured: ConfiguredTopology,
        settings: StreamsSettings,
        records: list[CoordinatorRecord],
        now: Moment,
    ) -> Target:
        """Return the target of a member: a new one if the group has a new epoch, else the last one."""
        if self._timers.is_assignment_delayed(group.group_id):
            return Target(group.epochs.assignment_epoch, NO_TASKS, _INITIAL_DELAY)
        last = Target(group.epochs.assignment_epoch, group.target_of(member.member_id))
        if last.epoch >= epoch or self.computations.has(group.group_id):
            return last
        if group.epochs.keeps_assignment(epoch, settings.assignment_interval_ms, now.wall_ms):
            return last._replace(delay=_INTERVAL)
        members = {**group.members, member.member_id: member}
        steps = _computed(members, group, configured, settings.standby_replicas)
        if _is_large(len(members), configured, settings):
            self.computations.request(group.group_id, Computation(group, epoch, steps))
            return last
        targets = run_steps(steps)
        records += _records(group, targets, epoch, now)
        return Target(epoch, targets.get(member.member_id, NO_TASKS))

    def of_group(
        self, group: StreamsGroup, configured: ConfiguredTopology, settings: StreamsSettings, now: Moment
    ) -> list[CoordinatorRecord]:
        """Return the records of a new target after the delay of a new group, if it may be computed now.

        The next heartbeat starts the computation for a large group.
        """
        epoch, interval_ms = group.epochs.group_epoch, settings.assignment_interval_ms
        if group.epochs.keeps_assignment(epoch, interval_ms, now.wall_ms):
            return []
        if _is_large(len(group.members), configured, settings):
            return []
        targets = run_steps(_computed(group.members, group, configured, settings.standby_replicas))
        return _records(group, targets, epoch, now)

    def on_computed(
        self, computation: Computation[StreamsGroup, Targets], targets: Targets, now: Moment
    ) -> list[CoordinatorRecord]:
        """Return the records of a target that was computed in steps, for the members that are left."""
        group = computation.group
        self.computations.end(group.group_id)
        remaining = {each: tasks for each, tasks in targets.items() if each in group.members}
        return _records(group, remaining, computation.epoch, now)


def _is_large(member_count: int, configured: ConfiguredTopology, settings: StreamsSettings) -> bool:
    """Return whether the target of a group is computed in steps."""
    task_count = sum(each.task_count for each in (configured.subtopologies or {}).values())
    return member_count + task_count * (1 + settings.standby_replicas) > ELEMENTS_AT_ONCE_MAX


def _computed(
    members: Mapping[str, StreamsMember],
    group: StreamsGroup,
    configured: ConfiguredTopology,
    standby_replicas: int,
) -> Steps[Targets]:
    """Return the steps that compute the target of each member from the current state of the group.

    While a topic is missing, members have no tasks.
    """
    subtopologies: Mapping[str, ConfiguredSubtopology] = {}
    if configured.is_ready and configured.subtopologies is not None:
        subtopologies = configured.subtopologies
    return assign(
        {
            member_id: MemberSpec(member.process_id, group.target_of(member_id))
            for member_id, member in members.items()
        },
        {
            subtopology_id: SubtopologySpec(each.task_count, each.is_stateful)
            for subtopology_id, each in subtopologies.items()
        },
        standby_replicas,
    )


def _records(
    group: StreamsGroup, targets: Mapping[str, Tasks], epoch: int, now: Moment
) -> list[CoordinatorRecord]:
    """Return the records of the targets that differ from the last ones, and of their epoch."""
    records: list[CoordinatorRecord] = [
        target_assignment(group.group_id, member_id, tasks)
        for member_id, tasks in targets.items()
        if tasks != group.target.get(member_id)
    ]
    records.append(target_assignment_epoch(group.group_id, epoch, now.wall_ms))
    logger.info("Group %s: computed a new target assignment for epoch %d", group.group_id, epoch)
    return records
