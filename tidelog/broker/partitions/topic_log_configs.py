"""Log configs of topics: the topic's own value, else the broker's default, else Kafka's default.

Values were validated when they were set. A value can still be invalid here, because a later version or other
defaults allowed it. It is then reported and ignored, so that the broker can start.
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
    """The effective configs of all topics.

    The broker's defaults are parsed once, because a request may create thousands of topics.
    """

    def __init__(self, defaults: Mapping[str, str]) -> None:
        """`defaults` are the broker's defaults by topic-level key."""
        self._reported: set[tuple[str, str]] = set()
        self.use_defaults(defaults)

    def use_defaults(self, defaults: Mapping[str, str]) -> None:
        """Replace the broker's defaults."""
        self._default_config, self._ignored_defaults = usable_log_config(defaults)

    def of(self, topic: str, image: MetadataImage) -> LogConfig:
        """Return the effective configs of a topic."""
        return self._of(topic, image)[0]

    def _of(self, topic: str, image: MetadataImage) -> tuple[LogConfig, bool]:
        """Return the effective configs of a topic, and whether an invalid value of a known key is ignored."""
        own = image.configs.get((ResourceType.TOPIC, topic), {})
        config, ignored = usable_log_config(own, self._default_config)
        ignored += [error for error in self._ignored_defaults if error.key not in own]
        for error in ignored:
            self._report(topic, str(error))
        return config, any(error.key in TOPIC_CONFIGS for error in ignored)

    def _report(self, topic: str, text: str) -> None:
        if (topic, text) in self._reported:
            return
        if len(self._reported) >= _REPORTS_MAX:
            self._reported.clear()
        self._reported.add((topic, text))
        logger.error("Ignoring an invalid config of topic %s: %s", topic, text)

    def apply_to(self, partitions: Iterable[Partition], image: MetadataImage) -> None:
        """Update the configs of partitions, except those of a topic with an invalid value."""
        configs: dict[str, tuple[LogConfig, bool]] = {}
        for partition in partitions:
            topic = partition.topic_partition.topic
            if topic not in configs:
                configs[topic] = self._of(topic, image)
            config, has_invalid_value = configs[topic]
            if not has_invalid_value:
                partition.update_config(config)
