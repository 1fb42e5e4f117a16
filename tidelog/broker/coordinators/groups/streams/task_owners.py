"""The processes in which the tasks of a streams group run.

A task is active in one process at a time, and a process has a task in one role at a time: its members share
the directory in which the state of the task is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tidelog.broker.coordinators.groups.streams.tasks import AssignedTasks

logger = logging.getLogger(__name__)

_Task: TypeAlias = tuple[str, int]
"""A subtopology id and a partition."""


class TaskOwners:
    """The process ids by task, of the tasks that members own or have not revoked yet."""

    def __init__(self) -> None:
        self._active: dict[_Task, str] = {}
        self._standby: dict[_Task, set[str]] = {}
        self._warmup: dict[_Task, set[str]] = {}

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process in which a task is active; None if it is active in none."""
        return self._active.get((subtopology_id, partition))

    def has_replica(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether a process has a task as a standby or warm-up task."""
        task = (subtopology_id, partition)
        return process_id in self._standby.get(task, ()) or process_id in self._warmup.get(task, ())

    def add(self, tasks: AssignedTasks, process_id: str) -> None:
        """Record that a process has `tasks`."""
        for task in _each(tasks.active):
            previous = self._active.get(task)
            if previous is not None:
                text = "Task %s_%d is assigned to process %s and still owned by process %s"
                logger.warning(text, *task, process_id, previous)
            self._active[task] = process_id
        for owners, role in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in _each(role):
                owners.setdefault(task, set()).add(process_id)

    def remove(self, tasks: AssignedTasks, process_id: str) -> None:
        """Record that a process has `tasks` no more, except those that are active in another process."""
        for task in _each(tasks.active):
            if self._active.get(task) == process_id:
                del self._active[task]
        for owners, role in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in _each(role):
                processes = owners.get(task)
                if processes is not None:
                    processes.discard(process_id)
                    if not processes:
                        del owners[task]


def _each(tasks: Mapping[str, Iterable[int]]) -> Iterable[_Task]:
    return ((subtopology_id, index) for subtopology_id, indexes in tasks.items() for index in indexes)
