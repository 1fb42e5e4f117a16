"""`__consumer_offsets` on this node's partitions: where the group coordinator keeps what it must know.

Source: org.apache.kafka.coordinator.common.runtime.PartitionWriter; group.OffsetConfig.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from broker.clock import Clock
from broker.groups.config import GroupConfig
from broker.groups.offsets_log import AppendedRecords
from broker.groups.service import GroupService
from broker.handlers.find_coordinator import CoordinatorTopic, CoordinatorType
from broker.leadership_lease import LeadershipLease
from broker.partition import ACKS_ALL, Partition
from broker.purgatory.purgatory import Purgatory
from broker.replica_manager import ReplicaManager
from cluster.image import MetadataImage
from cluster.topic_names import GROUP_METADATA_TOPIC
from protocol.batch import iterate_headers
from protocol.compression import Compression
from protocol.ids import TopicPartition
from protocol.record import BatchBuilder
from storage.log import AppendOrigin


class ConsumerOffsetsLog:
    """Appends to and reads from the led partitions; fulfils `broker.groups.offsets_log.OffsetsLog`."""

    def __init__(
        self,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        fetch_purgatory: Purgatory,
        config: GroupConfig,
        clock: Clock,
        lease: LeadershipLease,
    ) -> None:
        self._replicas = replicas
        self._lease = lease
        self._image = image
        self._fetch_purgatory = fetch_purgatory
        self._config = config
        self._clock = clock

    def partition_count(self) -> int:
        """Partitions of the topic; before it exists, as many as it will get."""
        topic = self._image().topics_by_name.get(GROUP_METADATA_TOPIC)
        return len(topic.partitions) if topic is not None else self._config.offsets_topic_num_partitions

    def is_likely_led(self, partition: int) -> bool:
        """Whether this node was heard of as its leader lately."""
        return self._lease.is_likely(self._partition(partition))

    async def confirm_led(self, partition: int) -> None:
        """Return when no other node led the partition as this was called."""
        await self._lease.confirm(self._partition(partition))

    def append(self, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> AppendedRecords:
        """Append all records as one batch. Errors: KafkaError when none of them is in the log."""
        led = self._partition(partition)
        now_ms = self._clock.wall_ms()
        builder = BatchBuilder(compression=Compression(self._config.offsets_topic_compression_codec))
        for key, value in records:
            builder.append(now_ms, key, value)
        info = led.append(builder.build(), ACKS_ALL, now_ms, AppendOrigin.COORDINATOR)
        self._fetch_purgatory.check_and_complete(led.topic_partition)
        committed = self._replicas.leadership.commits.wait(led, info.last_offset + 1)
        return AppendedRecords(info.first_offset, committed)

    async def read(self, partition: int) -> AsyncIterator[bytes | memoryview]:
        """Whole batches from the log start to the log end, a few of them at a time."""
        log = self._partition(partition).log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, self._config.offsets_load_buffer_size, at_least_one=True)
            if read.records is None:
                return
            batches = read.records.read()
            for _, header in iterate_headers(batches):
                offset = header.next_offset
            yield batches
            await asyncio.sleep(0)

    def _partition(self, partition: int) -> Partition:
        return self._replicas.partition(TopicPartition(GROUP_METADATA_TOPIC, partition))


def coordinator_topics(groups: GroupService) -> dict[CoordinatorType, CoordinatorTopic]:
    """Where the coordinators that this cluster has keep their state."""
    return {CoordinatorType.GROUP: CoordinatorTopic(GROUP_METADATA_TOPIC, groups.partition_for)}
