"""The tasks of one replica in one role: a leader copies and expires, a follower keeps track."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tidelog.clients.transport.backoff import ExponentialBackoff
from tidelog.remote.copying.task import CopyTask
from tidelog.remote.expiry.partition_remover import RemotePartitionRemover
from tidelog.remote.expiry.task import ExpirationTask
from tidelog.remote.log_manager.follower_task import FollowerTask
from tidelog.remote.log_manager.periodic import PeriodicTask
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.replica import Role
from tidelog.remote.tasks.turns import Turns


class TaskPools(NamedTuple):
    """How many partitions each kind of task works on at once."""

    copy: Turns
    expiration: Turns
    follower: Turns


class PartitionTasks:
    """Starts and stops the tasks of a role; they begin when those of the role before are over.

    So a task of a partition never overlaps itself, whatever elections do.
    """

    def __init__(
        self,
        context: RemoteLogContext,
        role: Role,
        pools: TaskPools,
        backoff: ExponentialBackoff,
        remover: RemotePartitionRemover,
        before: PartitionTasks | None,
    ) -> None:
        self.role = role
        self._context = context
        self._pools = pools
        self._backoff = backoff
        self._remover = remover
        self._before = before
        self._copy: CopyTask | None = None
        self._tasks: list[PeriodicTask] = []

    def start(self) -> None:
        """Begin to run them."""
        assert not self._tasks
        if not self.role.is_leader:
            self._add("follower", self._follow, self._pools.follower)
            return
        self._copy = CopyTask(self._context, self.role)
        self._add("copy", self._unless_deleted(self._copy.run), self._pools.copy)
        expiration = ExpirationTask(self._context, self.role)
        self._add("expiration", self._unless_deleted(expiration.run), self._pools.expiration)

    def stop(self) -> None:
        """The role is over: no further step is taken."""
        self.role.is_current = False
        for task in self._tasks:
            task.stop()

    def cancel(self) -> None:
        """Break off what does not come to an end."""
        self.stop()
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """Return once nothing of this role runs, nor of the one before."""
        if self._before is not None:
            await self._before.ended()
            self._before = None
        for task in self._tasks:
            await task.ended()
        if self._copy is not None and not self.role.is_current:
            self._copy.release()

    def _add(self, kind: str, work: Callable[[], Awaitable[None]], turns: Turns) -> None:
        self._tasks.append(
            PeriodicTask(
                f"remote-{kind}-{self.role.replica.topic_id_partition.topic_partition}",
                work,
                interval_ms=lambda: self._context.settings.remote_log_manager_task_interval_ms,
                backoff=self._backoff,
                randomness=self._context.randomness,
                turns=turns,
                predecessor=self._before_ended,
            )
        )

    async def _before_ended(self) -> None:
        if self._before is not None:
            await self._before.ended()
            self._before = None

    async def _follow(self) -> None:
        # What is in remote storage of a log that was not tiered for a while goes: nobody counts on it.
        if self._remover.is_pending(self.role.replica.topic_id_partition):
            self._count_on_nothing_remote()
        else:
            await FollowerTask(self._context, self.role).run()

    def _count_on_nothing_remote(self) -> None:
        if self.role.is_current:
            self.role.replica.log.lose_remote_log()

    def _unless_deleted(self, run: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def run_unless_deleted() -> None:
            # What was copied before remote storage was switched off and on again goes first.
            partition = self.role.replica.topic_id_partition
            if self._remover.is_pending(partition):
                self._count_on_nothing_remote()
                if self.role.is_current:
                    self._remover.remove(partition)
                return
            await run()

        return run_unless_deleted
