"""Settings of topics' logs: a topic's own over the broker's over Kafka's defaults.

They were checked when they were set. What means nothing here all the same, as it is of a later version or was
set under other defaults, is reported and left out: a broker that did not start for it would help nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.broker.partitions.partition import Partition
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS, usable_log_config

logger = logging.getLogger(__name__)

_REPORTS_MAX: Final = 1000


class TopicLogConfigs:
    """`defaults` are what topics have when they do not set their own, by topic-level key."""

    def __init__(self, defaults: Mapping[str, str]) -> None:
        self.defaults = defaults
        self._reported: set[tuple[str, str]] = set()

    def of(self, topic: str, image: MetadataImage) -> LogConfig:
        """The settings of a topic."""
        return self._of(topic, image)[0]

    def _of(self, topic: str, image: MetadataImage) -> tuple[LogConfig, bool]:
        """The settings of a topic, and whether a value of a key that is known here had to be left out."""
        own = image.configs.get((ResourceType.TOPIC, topic), {})
        config, left_out = usable_log_config({**self.defaults, **own})
        for error in left_out:
            self._report(topic, str(error))
        return config, any(error.key in TOPIC_CONFIGS for error in left_out)

    def _report(self, topic: str, text: str) -> None:
        if (topic, text) in self._reported:
            return
        if len(self._reported) >= _REPORTS_MAX:
            self._reported.clear()
        self._reported.add((topic, text))
        logger.error("a config of topic %s is left out: %s", topic, text)

    def give(self, partitions: Iterable[Partition], image: MetadataImage) -> None:
        """Have partitions go by the settings of now; those of a topic with a bad value stay as they were."""
        configs: dict[str, tuple[LogConfig, bool]] = {}
        for partition in partitions:
            topic = partition.topic_partition.topic
            if topic not in configs:
                configs[topic] = self._of(topic, image)
            config, has_bad_value = configs[topic]
            if not has_bad_value:
                partition.update_config(config)
