"""The tasks of one replica in one role: a leader copies and expires, a follower tracks the remote offset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tidelog.base.backoff import ExponentialBackoff
from tidelog.remote.copying.task import CopyTask
from tidelog.remote.expiry.partition_remover import RemotePartitionRemover
from tidelog.remote.expiry.task import ExpirationTask
from tidelog.remote.log_manager.follower_task import FollowerTask
from tidelog.remote.log_manager.periodic import PeriodicTask
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.replica import Role
from tidelog.remote.tasks.slots import TaskSlots


class TaskPools(NamedTuple):
    """The limits of concurrent partitions for each kind of task."""

    copy: TaskSlots
    expiration: TaskSlots
    follower: TaskSlots


class PartitionTasks:
    """Starts and stops the tasks of a role; they begin after those of the previous role have ended.

    Therefore two tasks of the same kind never run at the same time for a partition, also during elections.
    """

    def __init__(
        self,
        context: RemoteLogContext,
        role: Role,
        pools: TaskPools,
        backoff: ExponentialBackoff,
        remover: RemotePartitionRemover,
        previous: PartitionTasks | None,
    ) -> None:
        self.role = role
        self._context = context
        self._pools = pools
        self._backoff = backoff
        self._remover = remover
        self._previous = previous
        self._copy: CopyTask | None = None
        self._tasks: list[PeriodicTask] = []

    def start(self) -> None:
        """Start the tasks."""
        assert not self._tasks
        # The segments of a mounted topic are those of another cluster, which copies and deletes them.
        if not self.role.is_leader or self.role.replica.log.config.is_mounted:
            self._add("follower", self._follow, self._pools.follower)
            return
        self._copy = CopyTask(self._context, self.role)
        self._add("copy", self._unless_deletion_pending(self._copy.run), self._pools.copy)
        expiration = ExpirationTask(self._context, self.role)
        self._add("expiration", self._unless_deletion_pending(expiration.run), self._pools.expiration)

    def stop(self) -> None:
        """End the role: no further step begins."""
        self.role.end()
        for task in self._tasks:
            task.stop()

    def cancel(self) -> None:
        """Cancel running steps."""
        self.stop()
        for task in self._tasks:
            task.cancel()

    async def wait_until_ended(self) -> None:
        """Return after all tasks of this role and of the previous one have ended."""
        if self._previous is not None:
            await self._previous.wait_until_ended()
            self._previous = None
        for task in self._tasks:
            await task.wait_until_ended()
        if self._copy is not None and not self.role.is_current:
            self._copy.release()

    def _add(self, kind: str, work: Callable[[], Awaitable[None]], slots: TaskSlots) -> None:
        self._tasks.append(
            PeriodicTask(
                f"remote-{kind}-{self.role.replica.topic_id_partition.topic_partition}",
                work,
                interval_ms=lambda: self._context.settings.remote_log_manager_task_interval_ms,
                backoff=self._backoff,
                randomness=self._context.randomness,
                slots=slots,
                predecessor=self._wait_for_previous,
            )
        )

    async def _wait_for_previous(self) -> None:
        if self._previous is not None:
            await self._previous.wait_until_ended()
            self._previous = None

    async def _follow(self) -> None:
        # The remote segments of a log that was not tiered for a while are deleted: the log must not rely on
        # them.
        if self._remover.is_pending(self.role.replica.topic_id_partition):
            self._disregard_remote_log()
        else:
            await FollowerTask(self._context, self.role).run()

    def _disregard_remote_log(self) -> None:
        if self.role.is_current:
            self.role.replica.log.remote_border.on_remote_log_deleted()

    def _unless_deletion_pending(self, run: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def run_unless_pending() -> None:
            # Segments that were copied before remote storage was disabled and enabled again are deleted
            # first.
            partition = self.role.replica.topic_id_partition
            if self._remover.is_pending(partition):
                self._disregard_remote_log()
                if self._copy is not None:
                    self._copy.release()  # the remover deletes it
                if self.role.is_current:
                    self._remover.remove(partition)
                return
            await run()

        return run_unless_pending
