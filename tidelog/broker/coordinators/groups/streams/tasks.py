"""The tasks of a member of a streams group, by role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, Protocol, TypeAlias

from tidelog.base.dataclass import dataclass

TaskSet: TypeAlias = Mapping[str, frozenset[int]]
"""Partitions by subtopology id."""

TaskEpochs: TypeAlias = Mapping[str, Mapping[int, int]]
"""Partitions by subtopology id, each with the epoch at which it was assigned to its member (KIP-1251)."""


class TaskIds(Protocol):
    """The tasks of one subtopology in a message or a record."""

    @property
    def subtopology_id(self) -> str:
        """The id of the subtopology."""
        ...

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions of the tasks."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Active, standby and warm-up tasks: a target, or the tasks that a member reports as owned."""

    active: TaskSet = field(default_factory=dict)
    standby: TaskSet = field(default_factory=dict)
    warmup: TaskSet = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)

    @classmethod
    def of(cls, active: Iterable[TaskIds], standby: Iterable[TaskIds], warmup: Iterable[TaskIds]) -> Tasks:
        """Return the tasks of a message or a record."""
        return cls(active=task_set(active), standby=task_set(standby), warmup=task_set(warmup))


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTasks:
    """The tasks that are assigned to a member, or that it must revoke."""

    active: TaskEpochs = field(default_factory=dict)
    standby: TaskSet = field(default_factory=dict)
    warmup: TaskSet = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)

    def has_any(self, tasks: Tasks) -> bool:
        """Return whether one of `tasks` is among these, in the same role."""
        return (
            any(not self.active.get(each, {}).keys().isdisjoint(tasks.active[each]) for each in tasks.active)
            or _overlap(self.standby, tasks.standby)
            or _overlap(self.warmup, tasks.warmup)
        )

    def includes(self, tasks: Tasks) -> bool:
        """Return whether all `tasks` are among these, in the same role."""
        return (
            all(
                each in self.active and self.active[each].keys() >= tasks.active[each]
                for each in tasks.active
            )
            and _is_part(tasks.standby, self.standby)
            and _is_part(tasks.warmup, self.warmup)
        )

    def equals(self, tasks: Tasks) -> bool:
        """Return whether these are exactly `tasks`."""
        active = {subtopology_id: frozenset(epochs) for subtopology_id, epochs in self.active.items()}
        return Tasks(active=active, standby=self.standby, warmup=self.warmup) == tasks

    def merged(self, other: AssignedTasks) -> AssignedTasks:
        """Return the tasks of both."""
        active = {subtopology_id: dict(epochs) for subtopology_id, epochs in self.active.items()}
        for subtopology_id, epochs in other.active.items():
            active.setdefault(subtopology_id, {}).update(epochs)
        return AssignedTasks(
            active=active,
            standby=_union(self.standby, other.standby),
            warmup=_union(self.warmup, other.warmup),
        )


NO_TASKS: Final = Tasks()
NO_ASSIGNED_TASKS: Final = AssignedTasks()


def task_set(tasks: Iterable[TaskIds]) -> TaskSet:
    """Return the partitions of a message or a record by subtopology id."""
    return {each.subtopology_id: frozenset(each.partitions) for each in tasks}


def _overlap(left: TaskSet, right: TaskSet) -> bool:
    return any(not left[each].isdisjoint(right[each]) for each in left.keys() & right.keys())


def _is_part(part: TaskSet, whole: TaskSet) -> bool:
    return all(each in whole and whole[each] >= part[each] for each in part)


def _union(left: TaskSet, right: TaskSet) -> TaskSet:
    nothing: frozenset[int] = frozenset()
    return {each: left.get(each, nothing) | right.get(each, nothing) for each in (*left, *right)}
