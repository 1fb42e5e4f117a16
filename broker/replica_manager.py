"""The partitions this node holds: found by name, opened and closed as the metadata says.

The node follows the metadata image: `apply` opens the log of every partition that is placed
here and drops those that are gone. Requests then ask for a partition and get it, or the
error code of why it cannot serve.

I/O: opens and renames log directories through the LogManager. Errors: KafkaError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from uuid import UUID

from broker.partition import Partition
from cluster.delta import MetadataDelta
from cluster.image import MetadataImage, ResourceType, TopicImage
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import BrokerId, TopicPartition
from storage.config import LogConfig
from storage.log_manager import LogManager

logger = logging.getLogger(__name__)


class ReplicaManager:
    """Every partition of this node, by topic name and by topic id."""

    def __init__(self, node_id: BrokerId, logs: LogManager, topic_defaults: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.logs = logs
        self.partitions: dict[TopicPartition, Partition] = {}
        self._topic_defaults = topic_defaults
        self._topic_names: dict[UUID, str] = {}
        self._unavailable: dict[TopicPartition, KafkaError] = {}

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """The led partition; UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR when there is none."""
        found = self.partitions.get(topic_partition)
        if found is None:
            raise self._unavailable.get(topic_partition) or KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} is not on node {self.node_id}"
            )
        return found

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic this node holds a partition of, by its id."""
        return self._topic_names.get(topic_id)

    def resolve(self, topic: str | None, topic_id: UUID | None, index: int) -> TopicPartition:
        """The partition that a request names by topic name or, in newer versions, by topic id."""
        if topic is not None:
            return TopicPartition(topic, index)
        assert topic_id is not None
        name = self._topic_names.get(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return TopicPartition(name, index)

    def apply(self, delta: MetadataDelta, image: MetadataImage, now_ms: int) -> None:
        """Follow one step of the metadata log: open, update and drop partitions."""
        for topic in delta.deleted_topics:
            self._drop_topic(topic, now_ms)
        for name in delta.changed_topics:
            current = image.topics_by_name.get(name)
            if current is not None:
                self._open_topic(current, image, now_ms)
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.TOPIC:
                self._update_config(name, image)

    def update_defaults(self, topic_defaults: Mapping[str, str], image: MetadataImage) -> None:
        """Take over what topics have when they do not set their own."""
        self._topic_defaults = topic_defaults
        for topic in image.topics_by_name:
            self._update_config(topic, image)

    def log_config(self, topic: str, image: MetadataImage) -> LogConfig:
        """A topic's settings: its own over the broker's over Kafka's defaults."""
        own = image.configs.get((ResourceType.TOPIC, topic), {})
        return LogConfig.from_values({**self._topic_defaults, **own})

    def _open_topic(self, topic: TopicImage, image: MetadataImage, now_ms: int) -> None:
        self._topic_names[topic.id] = topic.name
        config = self.log_config(topic.name, image)
        for index, placed in topic.partitions.items():
            topic_partition = TopicPartition(topic.name, index)
            if self.node_id not in placed.replicas:
                continue
            partition = self.partitions.get(topic_partition)
            if partition is None:
                partition = self._open(topic_partition, topic.id, config, now_ms)
            if partition is not None:
                partition.follow_metadata(placed)

    def _open(
        self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig, now_ms: int
    ) -> Partition | None:
        try:
            log = self.logs.get_or_create(topic_partition, topic_id, config, now_ms)
        except (KafkaError, OSError) as error:
            logger.error("partition %s is unavailable: %s", topic_partition, error)
            self._unavailable[topic_partition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return None
        self._unavailable.pop(topic_partition, None)
        opened = self.partitions[topic_partition] = Partition(topic_partition, topic_id, log)
        return opened

    def expected(self, image: MetadataImage) -> dict[TopicPartition, UUID]:
        """Every partition that the metadata places here, with its topic id."""
        return {
            TopicPartition(topic.name, index): topic.id
            for topic in image.topics_by_name.values()
            for index, placed in topic.partitions.items()
            if self.node_id in placed.replicas
        }

    def _update_config(self, topic: str, image: MetadataImage) -> None:
        config = self.log_config(topic, image)
        for partition in self.of_topic(topic):
            partition.log.update_config(config)

    def _drop_topic(self, topic: TopicImage, now_ms: int) -> None:
        self._topic_names.pop(topic.id, None)
        for index in topic.partitions:
            topic_partition = TopicPartition(topic.name, index)
            self._unavailable.pop(topic_partition, None)
            if self.partitions.pop(topic_partition, None) is not None:
                self.logs.delete(topic_partition, now_ms)

    def of_topic(self, topic: str) -> Iterable[Partition]:
        """The partitions of one topic that are here."""
        return [partition for key, partition in self.partitions.items() if key.topic == topic]
