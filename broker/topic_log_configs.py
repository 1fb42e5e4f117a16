"""Settings of topics' logs: a topic's own over the broker's over Kafka's defaults."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from broker.partition import Partition
from cluster.image import MetadataImage, ResourceType
from storage.config import LogConfig
from storage.topic_configs import log_config_from

logger = logging.getLogger(__name__)


class TopicLogConfigs:
    """`defaults` are what topics have when they do not set their own, by topic-level key."""

    def __init__(self, defaults: Mapping[str, str]) -> None:
        self.defaults = defaults

    def of(self, topic: str, image: MetadataImage) -> LogConfig:
        """The settings of a topic; ValueError where one cannot be."""
        own = image.configs.get((ResourceType.TOPIC, topic), {})
        return log_config_from({**self.defaults, **own})

    def give(self, partitions: Iterable[Partition], image: MetadataImage) -> None:
        """Have partitions go by the settings of now; those of a topic that cannot be stay as they were."""
        configs: dict[str, LogConfig | None] = {}
        for partition in partitions:
            topic = partition.topic_partition.topic
            if topic not in configs:
                configs[topic] = self._of_or_none(topic, image)
            if (config := configs[topic]) is not None:
                partition.update_config(config)

    def _of_or_none(self, topic: str, image: MetadataImage) -> LogConfig | None:
        try:
            return self.of(topic, image)
        except ValueError as error:
            logger.error("the settings of topic %s stay as they were: %s", topic, error)
            return None
