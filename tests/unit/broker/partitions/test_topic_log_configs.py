"""The effective configs of topics: their own values over the broker's defaults, which are parsed once."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.partitions.topic_log_configs import TopicLogConfigs
from tidelog.cluster.image import MetadataImage, ResourceType


def image_with(topic: str, own: Mapping[str, str]) -> MetadataImage:
    return MetadataImage(cluster_id="c", configs={(int(ResourceType.TOPIC), topic): own})


def test_topics_without_configs_share_the_defaults_which_are_parsed_once() -> None:
    """Parsing them for each of 1,000 new topics blocked the event loop for 60 ms."""
    configs = TopicLogConfigs({"retention.ms": "7"})
    image = MetadataImage(cluster_id="c")
    assert configs.of("a", image) is configs.of("b", image)
    configs.use_defaults({"retention.ms": "8"})
    assert configs.of("a", image).retention_ms == 8


def test_a_topics_own_value_replaces_the_default() -> None:
    configs = TopicLogConfigs({"retention.ms": "7", "flush.ms": "9"})
    config = configs.of("a", image_with("a", {"retention.ms": "70"}))
    assert (config.retention_ms, config.flush_ms) == (70, 9)


def test_an_invalid_default_affects_only_topics_without_their_own_value() -> None:
    configs = TopicLogConfigs({"retention.ms": "soon"})
    with_own_value = image_with("a", {"retention.ms": "70"})
    assert configs._of("a", with_own_value)[1] is False
    assert configs._of("b", with_own_value)[1] is True
