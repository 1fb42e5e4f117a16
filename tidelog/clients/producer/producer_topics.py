"""The topics that a producer sends to: their metadata, queues and sticky partitions."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.clients.config.client_config import ProducerConfig
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.metadata.cluster_metadata import TopicMetadata
from tidelog.clients.producer.accumulator import PartitionQueue, RecordAccumulator
from tidelog.clients.producer.partitioner import StickyPartitioner
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition


class TopicState:
    """The metadata, queues and sticky partition of one topic."""

    __slots__ = ("_was_used", "metadata", "partitioner", "queues")

    def __init__(self, metadata: TopicMetadata, partitioner: StickyPartitioner) -> None:
        self.metadata = metadata
        self.partitioner = partitioner
        self.queues: dict[int, PartitionQueue] = {}
        self._was_used = True

    def on_used(self) -> None:
        """Keep the topic in use at the next metadata update."""
        self._was_used = True

    def update(self, metadata: TopicMetadata) -> bool:
        """Use changed metadata; return whether the topic was used since the last update."""
        self.metadata = metadata
        was_used, self._was_used = self._was_used, False
        return was_used


class ProducerTopics:
    """Keeps the topics in use up to date; a topic that is no longer used is removed with its metadata."""

    def __init__(self, config: ProducerConfig, client: ClusterClient, accumulator: RecordAccumulator) -> None:
        self._states: dict[str, TopicState] = {}
        self._config = config
        self._client = client
        self._accumulator = accumulator

    @property
    def states(self) -> Mapping[str, TopicState]:
        """The states of the topics in use, always up to date; the producer reads it for every record."""
        return self._states

    async def load(self, topic: str, deadline_ms: int) -> TopicState:
        """Return the state of the topic; raise KafkaError if its metadata is not known in time."""
        await self._client.updater.ensure_topic(topic, deadline_ms)
        metadata = self._client.metadata.topics[topic]
        state = self._states.get(topic)
        if state is None:
            partitioner = StickyPartitioner(self._config.batch_size, self._client.environment.rng)
            state = self._states[topic] = TopicState(metadata, partitioner)
        return state

    def new_queue(self, state: TopicState, partition: int) -> PartitionQueue:
        """Create the queue of a partition; raise KafkaError if the partition does not exist."""
        topic = state.metadata.name
        if partition not in state.metadata.partitions:
            count = len(state.metadata.partitions)
            text = f"topic {topic!r} has no partition {partition!r}, only 0..{count - 1}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        queue = self._accumulator.queue(TopicPartition(topic, partition))
        state.queues[partition] = queue
        return queue

    def count_sticky(self, state: TopicState, size: int, *, is_ready: bool) -> None:
        """Count bytes for the sticky partitioner; weight partitions by their queues when a batch is ready."""
        available = state.metadata.available
        adaptive = self._config.partitioner_adaptive_partitioning_enable
        if is_ready and adaptive and len(state.queues) >= len(available):
            lengths = self._accumulator.queue_lengths(state.metadata.name, available)
            state.partitioner.update_load(available, lengths)
        state.partitioner.on_appended(
            size, available, len(state.metadata.partitions), batch_is_ready=is_ready
        )

    def refresh(self) -> None:
        """Apply new partition counts and leaders; called after every metadata update."""
        topics = self._client.metadata.topics
        for topic, state in list(self._states.items()):
            metadata = topics.get(topic)
            if metadata is None:
                del self._states[topic]
                continue
            if state.update(metadata):
                self._client.updater.policy.use_topic(topic, self._client.now_ms())
