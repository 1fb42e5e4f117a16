"""The tasks that the assignor has assigned to the members of one process so far."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple


class TaskId(NamedTuple):
    """One partition of one subtopology."""

    subtopology_id: str
    partition: int


class ProcessState:
    """The members of one process, and their tasks.

    Invariant: a process has a task at most once, active or standby.
    """

    def __init__(self) -> None:
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.task_counts: dict[str, int] = {}
        self._tasks: set[TaskId] = set()
        self._members_by_load: list[tuple[int, int, str]] | None = None

    @property
    def load(self) -> float:
        """The number of tasks for each member."""
        return len(self._tasks) / len(self.task_counts)

    def add_member(self, member_id: str) -> None:
        """Add a member without tasks."""
        self.task_counts[member_id] = 0

    def has(self, task: TaskId) -> bool:
        """Return whether a member of the process has a task."""
        return task in self._tasks

    def assign(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """Assign a task to a member. Return the number of its tasks."""
        self._members_by_load = None
        return self._assign(member_id, task, is_active)

    def assign_to_least_loaded(self, task: TaskId, *, is_active: bool) -> int:
        """Assign a task to the member with the fewest tasks. Return the number of its tasks."""
        if self._members_by_load is None:
            self._members_by_load = [
                (count, position, member_id)
                for position, (member_id, count) in enumerate(self.task_counts.items())
            ]
            heapq.heapify(self._members_by_load)
        _, position, member_id = self._members_by_load[0]
        count = self._assign(member_id, task, is_active)
        heapq.heapreplace(self._members_by_load, (count, position, member_id))
        return count

    def _assign(self, member_id: str, task: TaskId, is_active: bool) -> int:
        self._tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        self.task_counts[member_id] += 1
        return self.task_counts[member_id]


def least_loaded_heap(processes: Mapping[str, ProcessState]) -> list[tuple[float, int, ProcessState]]:
    """Return a heap of processes by load; equal loads are in the order of `processes`."""
    heap = [(process.load, position, process) for position, process in enumerate(processes.values())]
    heapq.heapify(heap)
    return heap
