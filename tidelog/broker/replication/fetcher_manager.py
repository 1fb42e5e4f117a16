"""Which fetcher copies which partition: one per leader and index, as the metadata says.

A partition always has the same index, a hash of its name modulo num.replica.fetchers, so that the
partitions of a topic spread over the fetchers of one leader. Fetchers that have nothing left end.

Nothing is fetched before `start`: a follower's fetch carries the broker epoch, by which the leader
knows which incarnation of us has the records (KIP-903).

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
    """All replica fetchers of this node; a listener of the ReplicaManager's role changes.

    `last_tiered_offset` is follower.fetch.last.tiered.offset.enable as the node's own file has it.
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
        self._ending: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False
        self._bytes_of_ended = 0
        self._restarts_of_ended = self._restart_errors_of_ended = 0

    # -- following the metadata

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Copy those that follow from their leaders, and the others no more."""
        if self._closed:
            # The metadata is followed to the end of a shutdown, and the logs may be closed by now.
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
        self._end_idle()

    def _follow(self, partition: Partition) -> None:
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
        """Which of a leader's fetchers copies a partition."""
        topic, index = topic_partition
        return (31 * zlib.crc32(topic.encode()) + index) % self._count

    def _fetcher(self, leader_id: BrokerId, index: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get((leader_id, index))
        if fetcher is None:
            fetcher = ReplicaFetcher(leader_id, index, self._new_core(), self._ports)
            fetcher.core.prefer_last_tiered_offset(self._last_tiered_offset)
            self._fetchers[leader_id, index] = fetcher
            if self._started:
                fetcher.start()
        return fetcher

    def _end_idle(self) -> None:
        for key, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                del self._fetchers[key]
                self._bytes_of_ended += fetcher.bytes_in
                self._restarts_of_ended += fetcher.remote_restarts
                self._restart_errors_of_ended += fetcher.remote_restart_errors
                self._end(fetcher)

    def _end(self, fetcher: ReplicaFetcher) -> None:
        if not self._started:
            return
        task = asyncio.get_running_loop().create_task(fetcher.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _prefer_last_tiered_offset(self, preferred: bool) -> None:
        self._last_tiered_offset = preferred
        for fetcher in self._fetchers.values():
            fetcher.core.prefer_last_tiered_offset(preferred)

    def resize(self, count: int) -> None:
        """Follow a change of num.replica.fetchers: every partition moves to where it now belongs."""
        if count == self._count:
            return
        logger.info("partitions are copied by %d fetchers of each leader, not %d", count, self._count)
        self._count = count
        for fetcher, partition in list(self._owners.values()):
            fetcher.remove(partition.topic_partition)
            self._follow(partition)
        self._end_idle()

    # -- start and stop

    def start(self, partitions: Iterable[Partition]) -> None:
        """Begin to fetch, also those of the node's partitions that followed before anybody listened."""
        self._started = True
        for partition in partitions:
            if partition.leader is None and partition.topic_partition not in self._owners:
                self._follow(partition)
        for fetcher in self._fetchers.values():
            fetcher.start()

    async def close(self) -> None:
        """End all fetchers, for good."""
        self._closed = True
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._owners.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._ending)

    # -- what is reported

    @property
    def fetchers(self) -> Iterable[ReplicaFetcher]:
        """Those that there are now."""
        return self._fetchers.values()

    @property
    def max_lag(self) -> Offset:
        """How far the partition that is furthest behind its leader is behind."""
        return max((fetcher.core.max_lag for fetcher in self._fetchers.values()), default=0)

    @property
    def failed_partitions(self) -> dict[TopicPartition, str]:
        """Those that were given up until their metadata changes, and why."""
        return {
            topic_partition: reason
            for fetcher in self._fetchers.values()
            for topic_partition, reason in fetcher.core.failed.items()
        }

    @property
    def bytes_in(self) -> int:
        """Bytes of batches that were copied since the start."""
        return self._bytes_of_ended + sum(fetcher.bytes_in for fetcher in self._fetchers.values())

    @property
    def remote_restart_attempts(self) -> int:
        """How often a follower has asked leader and tier where it may begin anew."""
        restarts = sum(fetcher.remote_restarts for fetcher in self._fetchers.values())
        return self._restarts_of_ended + restarts + self.remote_restart_errors

    @property
    def remote_restart_errors(self) -> int:
        """How many of these attempts failed: metadata that is not here yet, a tier that does not answer."""
        errors = sum(fetcher.remote_restart_errors for fetcher in self._fetchers.values())
        return self._restart_errors_of_ended + errors
