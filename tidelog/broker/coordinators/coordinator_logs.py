"""The internal topics on this node's partitions in which coordinators store their state.

Source: org.apache.kafka.coordinator.common.runtime.PartitionWriter, and TransactionStateManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.batch import BATCH_OVERHEAD, iterate_headers
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.log.partition_log import AppendInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTopic:
    """The settings of an internal topic; `num_partitions` applies to the creation of the topic.

    `load_buffer_size` bytes are read at a time. If `loads_committed` is true, a coordinator that has loaded a
    partition waits until all of its records are committed. It then never uses a record that may be lost.
    """

    name: str
    num_partitions: int
    load_buffer_size: int
    compression: Compression = Compression.NONE
    loads_committed: bool = False


class TopicStateLog:
    """Appends to and reads from the partitions that this node leads; implements `StateLog`."""

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
        """Return the number of partitions of the topic, also before it has been created."""
        topic = self._image().topics_by_name.get(self._topic.name)
        return len(topic.partitions) if topic is not None else self._topic.num_partitions

    def is_likely_leader(self, partition: int) -> bool:
        """Return whether this node's leadership was confirmed recently."""
        return self._lease.is_likely(self._partition(partition))

    async def confirm_leadership(self, partition: int) -> None:
        """Return when it is certain that no other node led the partition at the time of this call."""
        await self._lease.confirm(self._partition(partition))

    def batch_bytes_max(self, partition: int) -> int:
        """Return `max.message.bytes` of the topic. Raise KafkaError if this node is not the leader."""
        leader = self._partition(partition)
        leader.require_leader()
        return leader.log.rules.max_message_bytes

    def check_size(self, partition: int, size_bytes: int) -> None:
        """Raise KafkaError MESSAGE_TOO_LARGE if a batch cannot have `size_bytes` of keys and values."""
        check_batch_size(self._partition(partition), size_bytes, self._topic.compression)

    def append(self, partition: int, encoded: EncodedRecords) -> AppendedRecords:
        """Append all records as one batch. Raise KafkaError if no record has been appended."""
        leader = self._partition(partition)
        check_batch_size(leader, encoded.size_bytes, self._topic.compression)
        now_ms = self._clock.wall_ms()
        builder = BatchBuilder(compression=self._topic.compression)
        for key, value in encoded.records:
            builder.append(now_ms, key, value)
        info = leader.append(builder.build(), ACKS_ALL, now_ms, AppendOrigin.COORDINATOR)
        return appended_records(leader, info, self._replicas, self._fetch_purgatory)

    async def read(self, partition: int) -> AsyncIterator[bytes | memoryview]:
        """Yield the batches from the log start to the log end, several at a time."""
        log = self._partition(partition).log
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

    async def wait_until_committed(self, partition: int, end_offset: Offset) -> None:
        """Return when the records below `end_offset` are committed, or at once if that is not required."""
        if self._topic.loads_committed:
            await self._replicas.leadership.commits.wait(self._partition(partition), end_offset)

    def _partition(self, partition: int) -> Partition:
        return self._replicas.partition(TopicPartition(self._topic.name, partition))


def check_batch_size(leader: Partition, size_bytes: int, compression: Compression) -> None:
    """Raise MESSAGE_TOO_LARGE if keys and values of `size_bytes` do not fit into one batch of the log.

    The log checks the size, too. This check avoids building a very large batch.
    """
    leader.require_leader()
    if compression is not Compression.NONE:
        return
    least_bytes = BATCH_OVERHEAD + size_bytes
    allowed_bytes = leader.log.rules.max_message_bytes
    if least_bytes > allowed_bytes:
        text = f"batch of at least {least_bytes} bytes, max.message.bytes is {allowed_bytes}"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)


def appended_records(
    leader: Partition, info: AppendInfo, replicas: ReplicaManager, fetch_purgatory: Purgatory
) -> AppendedRecords:
    """Complete the fetches that wait for an appended batch. Return its offset and its commit."""
    fetch_purgatory.check_and_complete(leader.topic_partition)
    committed = replicas.leadership.commits.wait(leader, info.last_offset + 1)
    return AppendedRecords(info.first_offset, committed)
