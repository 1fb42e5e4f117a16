"""Writes batches that no client may send to an embedded broker: markers, gaps, other offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable

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
    """Writes to one partition on the event loop of its broker; `node_id` is the leader."""

    def __init__(
        self, cluster: EmbeddedCluster, topic: str, partition: int = 0, *, node_id: int | None = None
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
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

        self._cluster.run(append, self._node_id)

    def _append(self, batch: bytearray, origin: AppendOrigin) -> int:
        def append(node: BrokerNode) -> int:
            return self._partition(node).append(batch, ACKS_LEADER, _now_ms(), origin).first_offset

        return self._cluster.run(append, self._node_id)

    def _partition(self, node: BrokerNode) -> Partition:
        return node.services.replicas.partition(self._topic_partition)


def _now_ms() -> int:
    return int(time.time() * 1000)
