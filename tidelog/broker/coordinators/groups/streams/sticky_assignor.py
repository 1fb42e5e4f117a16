"""The assignor `sticky`, the only one of streams groups: balances tasks, and keeps them where their state is.

Active tasks stay with their member, then go to members that have them as standby tasks, as long as no member
gets more than its share. The other active tasks go to the processes with the lowest load. Standby tasks of
stateful subtopologies are assigned in the same way, never to a process that has the task already.

Source: StickyTaskAssignor and ProcessState of Apache Kafka 4.3.1, with the correction of KAFKA-20899.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.broker.coordinators.groups.streams.process_state import (
    ProcessState,
    TaskId,
    least_loaded_heap,
)
from tidelog.broker.coordinators.groups.streams.tasks import Tasks
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)


class MemberSpec(NamedTuple):
    """A member: its process, and its tasks in the last target assignment."""

    process_id: str
    previous: Tasks


class SubtopologySpec(NamedTuple):
    """A subtopology: the number of its tasks, and whether they have state."""

    task_count: int
    is_stateful: bool


def assign(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
) -> Steps[dict[str, Tasks]]:
    """Return the target assignment of each member. The arguments must not change meanwhile."""
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, standby_replicas)
    yield from assignment.read_previous()
    yield from assignment.assign_active(_by_partition(subtopologies))
    if standby_replicas:
        stateful = {each: spec for each, spec in subtopologies.items() if spec.is_stateful}
        yield from assignment.assign_standby(_by_partition(stateful))
    return (yield from assignment.result())


class _Quota:
    """The number of tasks that a member may get, as long as others have room.

    The tasks of a member that reaches it are subtracted from the total, and the others share the rest.
    """

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks_left = task_count
        self._members_left = member_count
        self.tasks_per_member = self._share()

    def _share(self) -> int:
        return -(-self._tasks_left // self._members_left) if self._members_left else 0

    def on_assigned(self, task_count: int) -> None:
        """Note that a member has `task_count` tasks now."""
        if task_count == self.tasks_per_member:
            self._members_left -= 1
            self._tasks_left -= task_count
            self.tasks_per_member = self._share()


class _Assignment:
    """The state of one computation."""

    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        subtopologies: Mapping[str, SubtopologySpec],
        standby_replicas: int,
    ) -> None:
        self._members = members
        self._standby_replicas = standby_replicas
        active_count = sum(spec.task_count for spec in subtopologies.values())
        stateful_count = sum(spec.task_count for spec in subtopologies.values() if spec.is_stateful)
        self._active_quota = _Quota(active_count, len(members))
        self._total_quota = _Quota(active_count + stateful_count * standby_replicas, len(members))
        self._processes: dict[str, ProcessState] = {}
        self._previous_active: dict[TaskId, str] = {}
        self._previous_standby: dict[TaskId, list[str]] = {}

    def read_previous(self) -> Steps[None]:
        """Read the processes of the members, and their previous tasks."""
        for member_id, member in self._members.items():
            self._processes.setdefault(member.process_id, ProcessState()).add_member(member_id)
            for subtopology_id, partitions in member.previous.active.items():
                for index in partitions:
                    self._previous_active[TaskId(subtopology_id, index)] = member_id
            for subtopology_id, partitions in member.previous.standby.items():
                for index in partitions:
                    self._previous_standby.setdefault(TaskId(subtopology_id, index), []).append(member_id)
            yield None

    def _process_of(self, member_id: str) -> ProcessState:
        return self._processes[self._members[member_id].process_id]

    def _task_count(self, member_id: str) -> int:
        return self._process_of(member_id).task_counts[member_id]

    # Active tasks

    def assign_active(self, tasks: Iterable[TaskId]) -> Steps[None]:
        """Assign active tasks: to their members, to members with a standby task, then by load."""
        remaining = []
        for task in tasks:
            previous = self._previous_active.get(task)
            if previous is None or not self._assign_active(task, previous):
                remaining.append(task)
            yield None
        unassigned = []
        for task in remaining:
            candidate = self._least_loaded(self._previous_standby.get(task, ()))
            if candidate is None or not self._assign_active(task, candidate):
                unassigned.append(task)
            yield None
        by_load = least_loaded_heap(self._processes)
        for task in sorted(unassigned):
            _, position, process = by_load[0]
            self._on_active_assigned(process.assign_to_least_loaded(task, is_active=True))
            heapq.heapreplace(by_load, (process.load, position, process))
            yield None

    def _assign_active(self, task: TaskId, member_id: str) -> bool:
        """Assign an active task to a member if its quota allows. Return whether it does."""
        if self._task_count(member_id) >= self._active_quota.tasks_per_member:
            return False
        self._on_active_assigned(self._process_of(member_id).assign(member_id, task, is_active=True))
        return True

    def _on_active_assigned(self, task_count: int) -> None:
        self._active_quota.on_assigned(task_count)
        self._total_quota.on_assigned(task_count)

    # Standby tasks

    def assign_standby(self, tasks: Sequence[TaskId]) -> Steps[None]:
        """Assign all replicas of standby tasks: to their previous members, then by load."""
        unassigned: list[tuple[TaskId, int]] = []
        for task in reversed(tasks):
            for replica in range(self._standby_replicas):
                if not self._assign_to_previous(task):
                    unassigned.append((task, self._standby_replicas - replica))
                    break
            yield None
        by_load = least_loaded_heap(self._processes)
        for task, replicas in sorted(unassigned, reverse=True):
            for replica in range(replicas):
                if not self._assign_by_load(by_load, task):
                    logger.warning(
                        "Unable to assign %d of %d standby tasks for task %s_%d: there are too few processes",
                        replicas - replica, self._standby_replicas, *task,
                    )  # fmt: skip
                    break
            yield None

    def _assign_to_previous(self, task: TaskId) -> bool:
        """Assign a standby task to a member that had it. Return whether a quota allows it."""
        active = self._previous_active.get(task)
        if (
            active is not None
            and not self._process_of(active).has(task)
            and self._assign_standby(task, active)
        ):
            return True
        previous = self._previous_standby.get(task, ())
        candidate = self._least_loaded(
            member_id for member_id in previous if not self._process_of(member_id).has(task)
        )
        return candidate is not None and self._assign_standby(task, candidate)

    def _assign_standby(self, task: TaskId, member_id: str) -> bool:
        if self._task_count(member_id) >= self._total_quota.tasks_per_member:
            return False
        self._total_quota.on_assigned(self._process_of(member_id).assign(member_id, task, is_active=False))
        return True

    def _assign_by_load(self, by_load: list[tuple[float, int, ProcessState]], task: TaskId) -> bool:
        """Assign a standby task to the process with the lowest load that does not have it."""
        passed = []
        is_assigned = False
        while by_load and not is_assigned:
            load, position, process = heapq.heappop(by_load)
            if not process.has(task):
                self._total_quota.on_assigned(process.assign_to_least_loaded(task, is_active=False))
                load, is_assigned = process.load, True
            passed.append((load, position, process))
        for entry in passed:
            heapq.heappush(by_load, entry)
        return is_assigned

    def _least_loaded(self, member_ids: Iterable[str]) -> str | None:
        """Return the first member than which no later one has both a lower process load and fewer tasks."""
        candidate: str | None = None
        candidate_load = candidate_count = 0.0
        for member_id in member_ids:
            load, count = self._process_of(member_id).load, self._task_count(member_id)
            if candidate is None or (load < candidate_load and count < candidate_count):
                candidate, candidate_load, candidate_count = member_id, load, count
        return candidate

    def result(self) -> Steps[dict[str, Tasks]]:
        """Return the tasks of each member."""
        tasks = {}
        for member_id in self._members:
            process = self._process_of(member_id)
            tasks[member_id] = Tasks(
                active=_compact(process.active.get(member_id, ())),
                standby=_compact(process.standby.get(member_id, ())),
            )
            yield None
        return tasks


def _by_partition(subtopologies: Mapping[str, SubtopologySpec]) -> list[TaskId]:
    """Return all tasks; those of one partition follow each other, because they are assigned together."""
    ordered = sorted(subtopologies.items())
    count = max((spec.task_count for _, spec in ordered), default=0)
    return [
        TaskId(each, index) for index in range(count) for each, spec in ordered if index < spec.task_count
    ]


def _compact(tasks: Iterable[TaskId]) -> dict[str, frozenset[int]]:
    partitions: dict[str, list[int]] = {}
    for subtopology_id, index in sorted(tasks):
        partitions.setdefault(subtopology_id, []).append(index)
    return {subtopology_id: frozenset(indexes) for subtopology_id, indexes in partitions.items()}
