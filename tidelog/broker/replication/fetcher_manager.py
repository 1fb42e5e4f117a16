"""Assigns the follower partitions of this node to fetchers: one fetcher per leader and index.

The index of a partition is a hash of its name modulo num.replica.fetchers, so that the partitions of a topic
are spread over the fetchers of one leader. Fetchers without partitions are closed.

Nothing is fetched before `start`, because a follower's fetch contains the epoch of our registration. With
this epoch the leader knows which incarnation of this broker has the records (KIP-903).

Source: AbstractFetcherManager of Apache Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.broker.replication.fetcher import FetcherPorts, ReplicaFetcher
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition

logger = logging.getLogger(__name__)

_COUNT_KEY: Final = "num.replica.fetchers"
_LAST_TIERED_OFFSET_KEY: Final = "follower.fetch.last.tiered.offset.enable"


class FetcherManager:
    """All replica fetchers of this node; a listener of role changes.

    `last_tiered_offset` is follower.fetch.last.tiered.offset.enable of the node's properties file.
    """

    def __init__(
        self,
        node_id: BrokerId,
        count: int,
        ports: FetcherPorts,
        new_core: Callable[[], FollowerFetcher],
        *,
        last_tiered_offset: bool = False,
    ) -> None:
        self._node_id = node_id
        self._count = self._static_count = count
        self._last_tiered_offset = self._static_last_tiered_offset = last_tiered_offset
        self._ports = ports
        self._new_core = new_core
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._owners: dict[TopicPartition, tuple[ReplicaFetcher, Partition]] = {}
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._is_started = False
        self._is_closed = False
        self._bytes_of_closed = 0
        self._restarts_of_closed = self._restart_errors_of_closed = 0

    # -- applying the metadata

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Copy follower partitions from their leaders, and stop copying the others."""
        if self._is_closed:
            # During a shutdown, metadata is applied until the end, and the logs may be closed already.
            return
        own, cluster = image.broker_configs(self._node_id), image.cluster_configs()
        self.resize(int(own.get(_COUNT_KEY) or cluster.get(_COUNT_KEY) or self._static_count))
        preferred = own.get(_LAST_TIERED_OFFSET_KEY) or cluster.get(_LAST_TIERED_OFFSET_KEY)
        self._prefer_last_tiered_offset(
            self._static_last_tiered_offset if preferred is None else preferred.lower() == "true"
        )
        for topic_partition in changes.removed:
            self._remove(topic_partition)
        for partition in changes.leaders:
            self._remove(partition.topic_partition)
        for partition in changes.followers:
            self._follow(partition)
        self._close_idle()

    def _follow(self, partition: Partition) -> None:
        """Copy a partition from its current leader, if it has one."""
        topic_partition = partition.topic_partition
        if partition.leader_id in (NO_LEADER, self._node_id):
            self._remove(topic_partition)
            return
        fetcher = self._fetcher(partition.leader_id, self.index_of(topic_partition))
        owner = self._owners.get(topic_partition)
        if owner is not None and owner[0] is not fetcher:
            owner[0].remove(topic_partition)
        self._owners[topic_partition] = (fetcher, partition)
        fetcher.add(topic_partition, partition.topic_id, partition.leader_epoch, partition.log)

    def _remove(self, topic_partition: TopicPartition) -> None:
        owner = self._owners.pop(topic_partition, None)
        if owner is not None:
            owner[0].remove(topic_partition)

    def index_of(self, topic_partition: TopicPartition) -> int:
        """Return the index of the fetcher that copies a partition."""
        topic, index = topic_partition
        return (31 * zlib.crc32(topic.encode()) + index) % self._count

    def _fetcher(self, leader_id: BrokerId, index: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get((leader_id, index))
        if fetcher is None:
            fetcher = ReplicaFetcher(leader_id, index, self._new_core(), self._ports)
            fetcher.core.prefer_last_tiered_offset(self._last_tiered_offset)
            self._fetchers[leader_id, index] = fetcher
            if self._is_started:
                fetcher.start()
        return fetcher

    def _close_idle(self) -> None:
        """Close the fetchers without partitions, and keep their totals for the metrics."""
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                del self._fetchers[key]
                self._bytes_of_closed += fetcher.bytes_in
                self._restarts_of_closed += fetcher.remote_restarts
                self._restart_errors_of_closed += fetcher.remote_restart_errors
                self._close_fetcher(fetcher)

    def _close_fetcher(self, fetcher: ReplicaFetcher) -> None:
        if not self._is_started:
            return
        task = asyncio.get_running_loop().create_task(fetcher.close())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)

    def _prefer_last_tiered_offset(self, preferred: bool) -> None:
        self._last_tiered_offset = preferred
        for fetcher in self._fetchers.values():
            fetcher.core.prefer_last_tiered_offset(preferred)

    def resize(self, count: int) -> None:
        """Apply a change of num.replica.fetchers, and move each partition to its new fetcher."""
        if count == self._count:
            return
        logger.info("Resizing fetchers: num.replica.fetchers changed from %d to %d", self._count, count)
        self._count = count
        for fetcher, partition in list(self._owners.values()):
            fetcher.remove(partition.topic_partition)
            self._follow(partition)
        self._close_idle()

    # -- start and stop

    def start(self, partitions: Iterable[Partition]) -> None:
        """Start to fetch, including partitions that became followers before this listener was registered."""
        self._is_started = True
        for partition in partitions:
            if partition.leader is None and partition.topic_partition not in self._owners:
                self._follow(partition)
        for fetcher in self._fetchers.values():
            fetcher.start()

    async def close(self) -> None:
        """Close all fetchers."""
        self._is_closed = True
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._owners.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._closing_tasks)

    # -- metrics

    @property
    def fetchers(self) -> Iterable[ReplicaFetcher]:
        """The current fetchers."""
        return self._fetchers.values()

    @property
    def max_lag(self) -> Offset:
        """The largest lag of a partition behind its leader, in records."""
        return max((fetcher.core.max_lag for fetcher in self._fetchers.values()), default=0)

    @property
    def failed_partitions(self) -> dict[TopicPartition, str]:
        """The partitions that failed and wait for new metadata, with the reason."""
        return {
            topic_partition: reason
            for fetcher in self._fetchers.values()
            for topic_partition, reason in fetcher.core.failed.items()
        }

    @property
    def bytes_in(self) -> int:
        """The bytes of all batches that were fetched since the start."""
        return self._bytes_of_closed + sum(fetcher.bytes_in for fetcher in self._fetchers.values())

    @property
    def remote_restart_attempts(self) -> int:
        """The number of attempts to restart a follower's log from remote storage."""
        restarts = sum(fetcher.remote_restarts for fetcher in self._fetchers.values())
        return self._restarts_of_closed + restarts + self.remote_restart_errors

    @property
    def remote_restart_errors(self) -> int:
        """The number of these attempts that failed: missing metadata, or unreachable remote storage."""
        errors = sum(fetcher.remote_restart_errors for fetcher in self._fetchers.values())
        return self._restart_errors_of_closed + errors
