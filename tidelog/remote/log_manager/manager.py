"""The RemoteLogManager: starts and stops the tasks of the partitions whose replicas this node has.

    on_leadership_change   leader: copy and expire; follower: track the remote offset. Former tasks end first
    stop_partitions        end the tasks; `deletes_remote` deletes the remote data (topic deleted, KIP-950)

It runs on the event loop; only calls of the storage manager run in threads. The caller owns the storage
manager and the metadata manager.

Source: RemoteLogManager of Apache Kafka 4.3; KIP-405, KIP-950, KIP-956, KIP-963, KIP-1105.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from tidelog.base.bounded_pool import BoundedPool
from tidelog.remote.expiry.partition_remover import TAKEOVER_INTERVALS, RemotePartitionRemover
from tidelog.remote.expiry.segment_deletion import delete_undeleted_copies
from tidelog.remote.log_manager.partition_tasks import PartitionTasks, TaskPools
from tidelog.remote.log_manager.periodic import PeriodicTask
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.remote.tasks.byte_rate import ByteRate
from tidelog.remote.tasks.context import NodeServices, RemoteLogContext
from tidelog.remote.tasks.figures import RemoteFigures
from tidelog.remote.tasks.outages import StoreOutages, failure_backoff
from tidelog.remote.tasks.replica import Role, TieredReplica
from tidelog.remote.tasks.settings import RemoteLogManagerSettings
from tidelog.remote.tasks.slots import TaskSlots

CLOSE_TIMEOUT_S: Final = 10.0

_log = logging.getLogger(__name__)


class RemoteLogManager:
    """The tasks of one node's partitions in remote storage. Created and used on a running event loop."""

    def __init__(
        self,
        settings: RemoteLogManagerSettings,
        storage: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        node: NodeServices,
    ) -> None:
        self.copier_pool = BoundedPool(
            "remote-log-copier",
            settings.remote_log_manager_copier_thread_pool_size,
            starter=node.threads,
        )
        self.expiration_pool = BoundedPool(
            "remote-log-expiration",
            settings.remote_log_manager_expiration_thread_pool_size,
            starter=node.threads,
        )
        self.reader_pool = BoundedPool(
            "remote-log-reader",
            settings.remote_log_reader_threads,
            settings.remote_log_reader_max_pending_tasks,
            starter=node.threads,
        )
        """Threads that read from remote storage: remote.log.reader.threads and .max.pending.tasks."""
        self.fetch_quota = ByteRate(*_fetch_rate(settings))
        """The quota of reads: check `is_exceeded` before a read, call `record` after it (KIP-956)."""
        self._slots = TaskPools(TaskSlots(1), TaskSlots(1), TaskSlots(1))
        self._context = RemoteLogContext(
            broker_id=node.broker_id,
            settings=settings,
            storage=storage,
            metadata=metadata,
            clock=node.clock,
            randomness=node.randomness,
            run_copy=self.copier_pool.run,
            run_deletion=self.expiration_pool.run,
            copy_quota=ByteRate(*_copy_rate(settings)),
            outages=node.outages or StoreOutages.create(settings, node.clock, node.randomness),
            faults=node.faults,
            is_confirmed=node.is_confirmed,
            referenced_until_ms=node.referenced_until_ms,
        )
        self._backoff = failure_backoff(settings)
        self._remover = RemotePartitionRemover(
            self._context, self._slots.expiration, self._backoff, self.is_assigned
        )
        self._partitions: dict[TopicIdPartition, PartitionTasks] = {}
        self._ending: dict[PartitionTasks, None] = {}
        self._maintenance: PeriodicTask | None = None
        self._is_started = False
        self._is_closed = False
        self.update_settings(settings)

    @property
    def figures(self) -> RemoteFigures:
        """The counters for metrics."""
        return self._context.figures

    @property
    def copy_quota(self) -> ByteRate:
        """The quota of copies (KIP-956)."""
        return self._context.copy_quota

    @property
    def partitions_to_remove(self) -> frozenset[TopicIdPartition]:
        """The partitions whose remote data this node is deleting."""
        return self._remover.partitions

    def is_assigned(self, partition: TopicIdPartition) -> bool:
        """Return whether this node has a replica of `partition`."""
        return partition in self._partitions

    def update_settings(self, settings: RemoteLogManagerSettings) -> None:
        """Apply changed settings: intervals, sizes of pools, and quotas."""
        self._context.update_settings(settings)
        copier, expiration = (
            settings.remote_log_manager_copier_thread_pool_size,
            settings.remote_log_manager_expiration_thread_pool_size,
        )
        self.copier_pool.resize(copier)
        self._slots.copy.resize(copier)
        self.expiration_pool.resize(expiration)
        self._slots.expiration.resize(expiration)
        self._slots.follower.resize(settings.remote_log_manager_follower_thread_pool_size)
        self.reader_pool.resize(settings.remote_log_reader_threads)
        self.copy_quota.configure(*_copy_rate(settings))
        self.fetch_quota.configure(*_fetch_rate(settings))

    def start(self) -> None:
        """Start the tasks; partitions may have been assigned before (KIP-1197)."""
        assert not self._is_closed
        if self._is_started:
            return
        self._is_started = True
        for tasks in self._partitions.values():
            tasks.start()
        self._maintenance = PeriodicTask(
            "remote-maintenance",
            self._maintain,
            interval_ms=self._interval_ms,
            backoff=self._backoff,
            randomness=self._context.randomness,
            slots=TaskSlots(1),
        )

    def on_leadership_change(
        self, leaders: Iterable[TieredReplica], followers: Iterable[TieredReplica]
    ) -> None:
        """Assign replicas as `leaders` or `followers`; replicas that are not tiered are ignored.

        A repeated call changes nothing; another leader epoch ends work in progress.
        """
        if self._is_closed:
            return
        tiered_leaders = [replica for replica in leaders if replica.log.remote_log_enabled]
        tiered_followers = [replica for replica in followers if replica.log.remote_log_enabled]
        self._context.metadata.on_partition_leadership_changes(
            [replica.topic_id_partition for replica in tiered_leaders],
            [replica.topic_id_partition for replica in tiered_followers],
        )
        for replica in tiered_followers:
            self._remover.stop_working_on(replica.topic_id_partition)
            self._assign(replica, is_leader=False)
            self.figures.remove_partition(replica.topic_id_partition)
        for replica in tiered_leaders:
            self._remover.cancel_unless_begun(replica.topic_id_partition)
            self._assign(replica, is_leader=True)

    def stop_partitions(self, partitions: Iterable[TopicIdPartition], *, deletes_remote: bool) -> None:
        """End the tasks of `partitions`, whose replicas leave this node.

        With `deletes_remote`, delete their remote data: at once if this node was leader, otherwise after a
        delay, in case the leader could not delete it. May be called for every replica.
        """
        if self._is_closed:
            return
        stopped = list(partitions)
        for partition in stopped:
            tasks = self._partitions.pop(partition, None)
            if tasks is not None:
                self._end_tasks(tasks)
            self.figures.remove_partition(partition)
            if deletes_remote:
                is_leader = tasks is not None and tasks.role.is_leader
                delay_ms = 0 if is_leader else TAKEOVER_INTERVALS * self._interval_ms()
                after = tasks.wait_until_ended if tasks is not None else None
                self._remover.remove(partition, after=after, delay_ms=delay_ms, may_begin=True)
        still_used = frozenset() if deletes_remote else self._remover.partitions
        if not deletes_remote:
            self._context.metadata.on_stop_partitions(
                [partition for partition in stopped if partition not in still_used]
            )

    def keep_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Stop deleting those of `partitions` that are not assigned to this node.

        They are tiered again: their leader finishes the deletion.
        """
        for partition in partitions:
            if not self.is_assigned(partition):
                self._remover.stop_working_on(partition)

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """End all tasks as `stop_tasks` does, and stop reading.

        The storage manager and the metadata manager stay open.
        """
        await self.stop_tasks(timeout_s)
        for pool in (self.copier_pool, self.expiration_pool, self.reader_pool):
            pool.close()

    async def stop_tasks(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """End all tasks; work in progress is cancelled after `timeout_s`. Segments can still be read."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._maintenance is not None:
            self._maintenance.cancel()
        for tasks in self._partitions.values():
            self._end_tasks(tasks)
        self._partitions.clear()
        await self._remover.close()
        ending = [asyncio.ensure_future(tasks.wait_until_ended()) for tasks in list(self._ending)]
        if ending:
            _, unfinished = await asyncio.wait(ending, timeout=timeout_s)
            if unfinished:
                _log.warning(
                    "Cancelling the remote tasks of %d partitions, which did not end within %g s",
                    len(unfinished),
                    timeout_s,
                )
                for tasks in list(self._ending):
                    tasks.cancel()
                await asyncio.wait(unfinished)

    def _assign(self, replica: TieredReplica, *, is_leader: bool) -> None:
        partition = replica.topic_id_partition
        before = self._partitions.get(partition)
        if before is not None:
            if before.role.continues_as(replica, is_leader=is_leader):
                return
            self._end_tasks(before)
        tasks = PartitionTasks(
            self._context,
            Role(replica, is_leader=is_leader),
            self._slots,
            self._backoff,
            self._remover,
            before,
        )
        self._partitions[partition] = tasks
        if self._is_started:
            tasks.start()

    def _end_tasks(self, tasks: PartitionTasks) -> None:
        tasks.stop()
        self._ending[tasks] = None
        forget = asyncio.ensure_future(tasks.wait_until_ended())
        forget.add_done_callback(lambda _: self._ending.pop(tasks, None))

    async def _maintain(self) -> None:
        """Resume deletions, remove figures of topics without a partition, and delete undeleted copies."""
        self._remover.resume_deletions()
        partitions = (*self._partitions, *self._remover.partitions)
        self.figures.retain_topics({partition.topic for partition in partitions})
        await delete_undeleted_copies(self._context)

    def _interval_ms(self) -> int:
        return self._context.settings.remote_log_manager_task_interval_ms


def _copy_rate(settings: RemoteLogManagerSettings) -> tuple[int, int, int]:
    """Return the limit of copies in bytes per second, the number of windows, and their size in seconds."""
    return (
        settings.remote_log_manager_copy_max_bytes_per_second,
        settings.remote_log_manager_copy_quota_window_num,
        settings.remote_log_manager_copy_quota_window_size_seconds,
    )


def _fetch_rate(settings: RemoteLogManagerSettings) -> tuple[int, int, int]:
    """Return the limit of reads in bytes per second, the number of windows, and their size in seconds."""
    return (
        settings.remote_log_manager_fetch_max_bytes_per_second,
        settings.remote_log_manager_fetch_quota_window_num,
        settings.remote_log_manager_fetch_quota_window_size_seconds,
    )
