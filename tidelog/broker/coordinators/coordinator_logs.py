"""Internal topics on this node's partitions: where coordinators keep what they must know.

Source: org.apache.kafka.coordinator.common.runtime.PartitionWriter, and TransactionStateManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.compression import Compression
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.protocol.record import BatchBuilder
from tidelog.storage.log.partition_log import AppendInfo, AppendOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopic:
    """An internal topic: how many partitions it will be created with, how it is read and written.

    `load_buffer_size` bytes are read at once. `loads_committed`: whoever loads a partition waits until
    all that stands in its log is committed, so that nothing is done by what may be lost again.
    """

    name: str
    num_partitions: int
    load_buffer_size: int
    compression: Compression = Compression.NONE
    loads_committed: bool = False


class TopicStateLog:
    """Appends to and reads from the led partitions; fulfils `broker.coordinator.state_log.StateLog`."""

    def __init__(
        self,
        topic: StateTopic,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        fetch_purgatory: Purgatory,
        clock: Clock,
        lease: LeadershipLease,
    ) -> None:
        self._topic = topic
        self._replicas = replicas
        self._lease = lease
        self._image = image
        self._fetch_purgatory = fetch_purgatory
        self._clock = clock

    def partition_count(self) -> int:
        """Partitions of the topic; before it exists, as many as it will get."""
        topic = self._image().topics_by_name.get(self._topic.name)
        return len(topic.partitions) if topic is not None else self._topic.num_partitions

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
        builder = BatchBuilder(compression=self._topic.compression)
        for key, value in records:
            builder.append(now_ms, key, value)
        info = led.append(builder.build(), ACKS_ALL, now_ms, AppendOrigin.COORDINATOR)
        return appended(led, info, self._replicas, self._fetch_purgatory)

    async def read(self, partition: int) -> AsyncIterator[bytes | memoryview]:
        """Whole batches from the log start to the log end, a few of them at a time."""
        led = self._partition(partition)
        log = led.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, self._topic.load_buffer_size, at_least_one=True)
            if read.records is None:
                break
            batches = read.records.read()
            for _, header in iterate_headers(batches):
                offset = header.next_offset
            yield batches
            await asyncio.sleep(0)

    async def settled(self, partition: int, end_offset: Offset) -> None:
        """Return when what was read up to `end_offset` is committed, if that must be waited for."""
        if self._topic.loads_committed:
            await self._replicas.leadership.commits.wait(self._partition(partition), end_offset)

    def _partition(self, partition: int) -> Partition:
        return self._replicas.partition(TopicPartition(self._topic.name, partition))


def appended(
    led: Partition, info: AppendInfo, replicas: ReplicaManager, fetch_purgatory: Purgatory
) -> AppendedRecords:
    """Have waiting fetches look at what a coordinator has appended; what it waits for itself."""
    fetch_purgatory.check_and_complete(led.topic_partition)
    committed = replicas.leadership.commits.wait(led, info.last_offset + 1)
    return AppendedRecords(info.first_offset, committed)
