"""The RemoteLogManager: starts and stops the tasks of the partitions that are led and followed here.

    on_leadership_change   leader: copy and expire; follower: keep track. What was before ends first
    stop_partitions        nothing more; with `deletes_remote` the remote data goes (topic deleted, KIP-950)

Lives on the event loop; only calls of the storage manager leave it. Storage and metadata manager belong to
whoever gave them.

Source: RemoteLogManager of Apache Kafka 4.3; KIP-405, KIP-950, KIP-956, KIP-963, KIP-1105.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from tidelog.base.bounded_pool import BoundedPool
from tidelog.clients.transport.backoff import ExponentialBackoff
from tidelog.remote.expiry.partition_remover import TAKEOVER_INTERVALS, RemotePartitionRemover
from tidelog.remote.expiry.segment_deletion import delete_leftovers
from tidelog.remote.log_manager.partition_tasks import PartitionTasks, TaskPools
from tidelog.remote.log_manager.periodic import PeriodicTask
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.remote.tasks.byte_rate import ByteRate
from tidelog.remote.tasks.context import NodeServices, RemoteLogContext
from tidelog.remote.tasks.figures import RemoteFigures
from tidelog.remote.tasks.replica import Role, TieredReplica
from tidelog.remote.tasks.settings import RemoteLogManagerSettings
from tidelog.remote.tasks.turns import Turns

CLOSE_TIMEOUT_S: Final = 10.0

_log = logging.getLogger(__name__)


class RemoteLogManager:
    """All remote segments of one node's partitions. Made and used on a running event loop."""

    def __init__(
        self,
        settings: RemoteLogManagerSettings,
        storage: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        node: NodeServices,
    ) -> None:
        self.copier_pool = BoundedPool(
            "remote-log-copier", settings.remote_log_manager_copier_thread_pool_size
        )
        self.expiration_pool = BoundedPool(
            "remote-log-expiration", settings.remote_log_manager_expiration_thread_pool_size
        )
        self.reader_pool = BoundedPool(
            "remote-log-reader",
            settings.remote_log_reader_threads,
            settings.remote_log_reader_max_pending_tasks,
        )
        """For whoever reads from remote storage: remote.log.reader.threads and .max.pending.tasks."""
        self.fetch_quota = ByteRate()
        """What may be read from remote storage; `is_exceeded` before a read, `record` after it (KIP-956)."""
        self.turns = TaskPools(Turns(1), Turns(1), Turns(1))
        self._context = RemoteLogContext(
            broker_id=node.broker_id,
            settings=settings,
            storage=storage,
            metadata=metadata,
            clock=node.clock,
            randomness=node.randomness,
            run_copy=self.copier_pool.run,
            run_deletion=self.expiration_pool.run,
            faults=node.faults,
            is_confirmed=node.is_confirmed,
        )
        self._backoff = ExponentialBackoff(
            settings.remote_log_manager_task_retry_backoff_ms,
            settings.remote_log_manager_task_retry_backoff_max_ms,
            settings.remote_log_manager_task_retry_jitter,
        )
        self._remover = RemotePartitionRemover(
            self._context, self.turns.expiration, self._backoff, self._assigned_here
        )
        self._partitions: dict[TopicIdPartition, PartitionTasks] = {}
        self._ending: set[PartitionTasks] = set()
        self._tidying: PeriodicTask | None = None
        self._is_started = False
        self._is_closed = False
        self.update_settings(settings)

    @property
    def figures(self) -> RemoteFigures:
        """What was counted so far, for metrics."""
        return self._context.figures

    @property
    def copy_quota(self) -> ByteRate:
        """How many bytes may be copied (KIP-956)."""
        return self._context.copy_quota

    @property
    def removing(self) -> frozenset[TopicIdPartition]:
        """The partitions whose remote data this node deletes at the moment."""
        return self._remover.partitions

    def is_assigned(self, partition: TopicIdPartition) -> bool:
        """Whether `partition` is led or followed here."""
        return partition in self._partitions

    def update_settings(self, settings: RemoteLogManagerSettings) -> None:
        """Follow changed settings: intervals, sizes of pools and quotas from now on."""
        self._context.settings = settings
        copier, expiration = (
            settings.remote_log_manager_copier_thread_pool_size,
            settings.remote_log_manager_expiration_thread_pool_size,
        )
        self.copier_pool.resize(copier)
        self.turns.copy.resize(copier)
        self.expiration_pool.resize(expiration)
        self.turns.expiration.resize(expiration)
        self.turns.follower.resize(settings.remote_log_manager_follower_thread_pool_size)
        self.reader_pool.resize(settings.remote_log_reader_threads)
        self.copy_quota.configure(
            settings.remote_log_manager_copy_max_bytes_per_second,
            settings.remote_log_manager_copy_quota_window_num,
            settings.remote_log_manager_copy_quota_window_size_seconds,
        )
        self.fetch_quota.configure(
            settings.remote_log_manager_fetch_max_bytes_per_second,
            settings.remote_log_manager_fetch_quota_window_num,
            settings.remote_log_manager_fetch_quota_window_size_seconds,
        )

    def start(self) -> None:
        """Begin to work; partitions may have been assigned before (KIP-1197)."""
        assert not self._is_closed
        if self._is_started:
            return
        self._is_started = True
        for tasks in self._partitions.values():
            tasks.start()
        self._tidying = PeriodicTask(
            "remote-tidying",
            self._tidy_up,
            interval_ms=self._interval_ms,
            backoff=self._backoff,
            randomness=self._context.randomness,
            turns=Turns(1),
        )

    def on_leadership_change(
        self, leaders: Iterable[TieredReplica], followers: Iterable[TieredReplica]
    ) -> None:
        """These replicas lead or follow from now on. Those that are not tiered are passed over.

        Hearing the same again changes nothing; another leader epoch ends what is under way.
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
            self._remover.leave(replica.topic_id_partition)
            self._assign(replica, is_leader=False)
            self.figures.forget_partition(replica.topic_id_partition)
        for replica in tiered_leaders:
            self._remover.call_off(replica.topic_id_partition)
            self._assign(replica, is_leader=True)

    def stop_partitions(self, partitions: Iterable[TopicIdPartition], *, deletes_remote: bool) -> None:
        """These partitions are no more led or followed here.

        With `deletes_remote` their remote data goes: at once if this node led them, otherwise a while
        later, in case that the leader did not come to it. May be called on every replica.
        """
        if self._is_closed:
            return
        stopped = list(partitions)
        for partition in stopped:
            tasks = self._partitions.pop(partition, None)
            if tasks is not None:
                self._end(tasks)
            self.figures.forget_partition(partition)
            if deletes_remote:
                is_leader = tasks is not None and tasks.role.is_leader
                delay_ms = 0 if is_leader else TAKEOVER_INTERVALS * self._interval_ms()
                after = tasks.ended if tasks is not None else None
                self._remover.remove(partition, after=after, delay_ms=delay_ms, begins=True)
        still_used = frozenset() if deletes_remote else self._remover.partitions
        if not deletes_remote:
            self._context.metadata.on_stop_partitions([each for each in stopped if each not in still_used])

    def keep_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        """These are tiered again and are not here: their deletion, if one has begun, is their leader's."""
        for partition in partitions:
            if not self.is_assigned(partition):
                self._remover.leave(partition)

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Stop everything; what is under way gets `timeout_s` to come to an end and is broken off then.

        The storage manager and the metadata manager stay open.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._tidying is not None:
            self._tidying.cancel()
        for tasks in self._partitions.values():
            self._end(tasks)
        self._partitions.clear()
        await self._remover.close()
        ending = [asyncio.ensure_future(tasks.ended()) for tasks in list(self._ending)]
        if ending:
            _, unfinished = await asyncio.wait(ending, timeout=timeout_s)
            if unfinished:
                _log.warning("remote tasks of %d partitions are broken off", len(unfinished))
                for tasks in list(self._ending):
                    tasks.cancel()
                await asyncio.wait(unfinished)
        for pool in (self.copier_pool, self.expiration_pool, self.reader_pool):
            pool.close()

    def _assign(self, replica: TieredReplica, *, is_leader: bool) -> None:
        partition = replica.topic_id_partition
        before = self._partitions.get(partition)
        if before is not None:
            if before.role.continues_as(replica, is_leader=is_leader):
                return
            self._end(before)
        tasks = PartitionTasks(
            self._context,
            Role(replica, is_leader=is_leader),
            self.turns,
            self._backoff,
            self._remover,
            before,
        )
        self._partitions[partition] = tasks
        if self._is_started:
            tasks.start()

    def _end(self, tasks: PartitionTasks) -> None:
        tasks.stop()
        self._ending.add(tasks)
        forget = asyncio.ensure_future(tasks.ended())
        forget.add_done_callback(lambda _: self._ending.discard(tasks))

    async def _tidy_up(self) -> None:
        self._remover.take_over()
        self.figures.forget_topics_but(
            {each.topic for each in (*self._partitions, *self._remover.partitions)}
        )
        await delete_leftovers(self._context)

    def _assigned_here(self, partition: TopicIdPartition) -> bool:
        return partition in self._partitions

    def _interval_ms(self) -> int:
        return self._context.settings.remote_log_manager_task_interval_ms
