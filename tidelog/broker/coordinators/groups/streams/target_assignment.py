"""Computes the target assignment of a streams group for its new epoch.

Source: TargetAssignmentBuilder and GroupMetadataManager.maybeUpdateStreamsTargetAssignment of Apache Kafka
4.3.1.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.streams.config import StreamsSettings
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.records import target_assignment, target_assignment_epoch
from tidelog.broker.coordinators.groups.streams.sticky_assignor import MemberSpec, SubtopologySpec, assign
from tidelog.broker.coordinators.groups.streams.tasks import NO_TASKS, Tasks
from tidelog.broker.coordinators.groups.streams.timers import StreamsTimers
from tidelog.broker.coordinators.groups.streams.topic_configuration import ConfiguredTopology
from tidelog.broker.coordinators.shared.moment import Moment

logger = logging.getLogger(__name__)

_INITIAL_DELAY: Final = "Assignment delayed due to the configured initial rebalance delay."
_INTERVAL: Final = "Assignment delayed due to the configured assignment interval."


class Target(NamedTuple):
    """The target of one member, and its epoch. `delay` is the reason why no new one was computed, if any."""

    epoch: int
    tasks: Tasks
    delay: str | None = None


class TargetAssignment:
    """Computes targets, at most one in each assignment interval, and none during the delay of a new group."""

    def __init__(self, timers: StreamsTimers) -> None:
        self._timers = timers

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
        if last.epoch >= epoch:
            return last
        if group.epochs.keeps_assignment(epoch, settings.assignment_interval_ms, now.wall_ms):
            return last._replace(delay=_INTERVAL)
        members = {**group.members, member.member_id: member}
        targets = _compute(members, group, epoch, configured, settings, records, now)
        return Target(epoch, targets.get(member.member_id, NO_TASKS))

    def of_group(
        self, group: StreamsGroup, configured: ConfiguredTopology, settings: StreamsSettings, now: Moment
    ) -> list[CoordinatorRecord]:
        """Return the records of a new target after the delay of a new group, if it may be computed now."""
        records: list[CoordinatorRecord] = []
        epoch, interval_ms = group.epochs.group_epoch, settings.assignment_interval_ms
        if not group.epochs.keeps_assignment(epoch, interval_ms, now.wall_ms):
            _compute(group.members, group, epoch, configured, settings, records, now)
        return records


def _compute(
    members: dict[str, StreamsMember],
    group: StreamsGroup,
    epoch: int,
    configured: ConfiguredTopology,
    settings: StreamsSettings,
    records: list[CoordinatorRecord],
    now: Moment,
) -> dict[str, Tasks]:
    """Return the new target of each member; add the records of those that differ, and of the epoch.

    While a topic is missing, members have no tasks.
    """
    targets = dict.fromkeys(members, NO_TASKS)
    if configured.is_ready and configured.subtopologies is not None:
        targets = assign(
            {
                member_id: MemberSpec(member.process_id, group.target_of(member_id))
                for member_id, member in members.items()
            },
            {
                subtopology_id: SubtopologySpec(each.task_count, each.is_stateful)
                for subtopology_id, each in configured.subtopologies.items()
            },
            settings.standby_replicas,
        )
    records += [
        target_assignment(group.group_id, member_id, tasks)
        for member_id, tasks in targets.items()
        if tasks != group.target.get(member_id)
    ]
    records.append(target_assignment_epoch(group.group_id, epoch, now.wall_ms))
    logger.info("Group %s: computed a new target assignment for epoch %d", group.group_id, epoch)
    return targets
