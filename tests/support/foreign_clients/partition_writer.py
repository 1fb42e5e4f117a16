"""Writes batches that no client may send to an embedded broker: markers, gaps, other offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.partitions.partition import Partition
from tidelog.protocol.batch import stamp
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.control_batch import end_transaction_batch
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.append_origin import AppendOrigin
from tidelog.testing.embedded import EmbeddedCluster

ACKS_LEADER = 1


class PartitionWriter:
    """Writes to one partition on the event loop of its leader."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, partition: int = 0) -> None:
        self._cluster = cluster
        self._topic_partition = TopicPartition(topic, partition)
        self._next_sequence: dict[int, int] = {}

    def records(
        self,
        *values: bytes,
        producer_id: int | None = None,
        compression: Compression = Compression.NONE,
    ) -> int:
        """Append one batch, in `producer_id`'s transaction if given; return its first offset."""
        if producer_id is None:
            builder = BatchBuilder(compression=compression)
        else:
            sequence = self._next_sequence.get(producer_id, 0)
            self._next_sequence[producer_id] = sequence + len(values)
            builder = BatchBuilder(
                compression=compression,
                producer=BatchProducer(
                    producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
                ),
            )
        for value in values:
            builder.append(_now_ms(), b"k", value)
        return self._append(builder.build(), AppendOrigin.CLIENT)

    def end_transaction(self, producer_id: int, *, committed: bool) -> int:
        """Append the marker of a coordinator; return its offset."""
        marker = end_transaction_batch(
            committed=committed,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=_now_ms(),
        )
        return self._append(marker, AppendOrigin.COORDINATOR)

    def as_follower(self, batches: Iterable[tuple[int, bytes | bytearray]]) -> None:
        """Append batches at their given offsets, as a follower."""
        data = bytearray()
        for base_offset, batch in batches:
            position = len(data)
            data += batch
            stamp(memoryview(data)[position:], 0, base_offset, 0)

        def append(node: BrokerNode) -> None:
            log = self._partition(node).log
            log.append_as_follower(data, _now_ms())
            log.advance_high_watermark(log.log_end_offset)

        self._cluster.run(append)

    def _append(self, batch: bytearray, origin: AppendOrigin) -> int:
        """Append a batch and wait until it is committed; a new leader without the batch gets it again."""
        offset: int | None = None

        def is_committed() -> bool:
            nonlocal offset
            leader = self._leader()
            if leader is None:
                return False
            log = leader.log
            if offset is None or log.log_end_offset <= offset:
                offset = leader.append(batch, ACKS_LEADER, _now_ms(), origin).first_offset
            return log.high_watermark > offset

        wait_until(lambda: self._cluster.run(lambda _: is_committed()), f"{self._topic_partition} is written")
        assert offset is not None
        return offset

    def _leader(self) -> Partition | None:
        """Return the partition on the node that leads it with the newest epoch; None during an election."""
        replicas = [node.services.replicas.partitions for node in self._cluster.nodes.values()]
        partitions = [each[self._topic_partition] for each in replicas if self._topic_partition in each]
        leaders = [each for each in partitions if each.is_leader]
        return max(leaders, key=lambda each: each.leader_epoch, default=None)

    def _partition(self, node: BrokerNode) -> Partition:
        return node.services.replicas.partition(self._topic_partition)


def _now_ms() -> int:
    return int(time.time() * 1000)
