"""The partitions this node holds: found by name, opened and closed as the metadata says.

The node follows the metadata image: `apply` opens the log of every partition that is placed
here and drops those that are gone. Requests then ask for a partition and get it, or the
error code of why it cannot serve.

I/O: opens and renames log directories through the LogManager. Errors: KafkaError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import cast
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
        self._by_name_and_index = cast(dict[tuple[str, int], Partition], self.partitions)
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

    def find(self, topic: str | None, topic_id: UUID | None, index: int) -> Partition:
        """The led partition that a request names; the errors of `resolve` and `partition`."""
        name = topic if topic is not None or topic_id is None else self._topic_names.get(topic_id)
        if name is not None:
            # A plain tuple finds what an equal TopicPartition does; making one costs 0.3 us a request.
            found = self._by_name_and_index.get((name, index))
            if found is not None:
                return found
        return self.partition(self.resolve(topic, topic_id, index))

    def apply(self, delta: MetadataDelta, image: MetadataImage, now_ms: int) -> None:
        """Follow one step of the metadata log: open, update and drop partitions."""
        self._drop_topics(delta.deleted_topics, now_ms)
        for name in delta.changed_topics:
            current = image.topics_by_name.get(name)
            if current is not None:
                self._open_topic(current, delta.base, image, now_ms)
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

    def _open_topic(
        self, topic: TopicImage, before: MetadataImage, image: MetadataImage, now_ms: int
    ) -> None:
        self._topic_names[topic.id] = topic.name
        config = self.log_config(topic.name, image)
        known = before.topics_by_id.get(topic.id)
        for index, placed in topic.partitions.items():
            topic_partition = TopicPartition(topic.name, index)
            if self.node_id not in placed.replicas:
                continue
            # What is there when the node starts may have records, on a disk that is not there now.
            is_new = before.offset >= 0 and (known is None or index not in known.partitions)
            try:
                partition = self.partitions.get(topic_partition)
                if partition is None:
                    log = self.logs.get_or_create(topic_partition, topic.id, config, now_ms, is_new=is_new)
                    partition = Partition(topic_partition, topic.id, log)
                partition.follow_metadata(placed)
            except (KafkaError, OSError) as error:
                self._refuse(topic_partition, error)
            else:
                self._unavailable.pop(topic_partition, None)
                self.partitions[topic_partition] = partition

    def _refuse(self, topic_partition: TopicPartition, error: Exception) -> None:
        """Serve a partition no more whose log cannot be opened, or cannot take its leader epoch."""
        logger.error("partition %s is unavailable: %s", topic_partition, error)
        self.partitions.pop(topic_partition, None)
        self._unavailable[topic_partition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

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

    def _drop_topics(self, topics: Iterable[TopicImage], now_ms: int) -> None:
        gone: list[TopicPartition] = []
        for topic in topics:
            self._topic_names.pop(topic.id, None)
            gone += (TopicPartition(topic.name, index) for index in topic.partitions)
        for topic_partition in gone:
            self.partitions.pop(topic_partition, None)
            self._unavailable.pop(topic_partition, None)
        # Those that could not be opened go too: a new topic of the name must not find them.
        self.logs.delete_all(gone, now_ms)

    def of_topic(self, topic: str) -> Iterable[Partition]:
        """The partitions of one topic that are here."""
        return [partition for key, partition in self.partitions.items() if key.topic == topic]
