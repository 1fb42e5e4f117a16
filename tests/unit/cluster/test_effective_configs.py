"""Effective values of configs, and their synonyms."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.cluster.effective_configs import BrokerLayers, ConfigSource, effective_topic_entry
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

RETENTION = TOPIC_CONFIGS["retention.ms"]
DEFAULTS = {"log.retention.hours": "168", "log.segment.bytes": "1073741824"}


def layers(
    own: Mapping[str, str] | None = None,
    cluster: Mapping[str, str] | None = None,
    static: Mapping[str, str] | None = None,
) -> BrokerLayers:
    return BrokerLayers(own=own or {}, cluster=cluster or {}, static=static or {}, defaults=DEFAULTS)


def test_a_topic_config_has_the_highest_priority() -> None:
    broker_layers = layers({"log.retention.ms": "2"}, {"log.retention.ms": "3"}, {"log.retention.ms": "4"})
    assert effective_topic_entry(RETENTION, {"retention.ms": " 1 "}, broker_layers) == (
        "retention.ms",
        "1",
        ConfigSource.TOPIC,
    )
    assert effective_topic_entry(RETENTION, {}, broker_layers)[1:] == ("2", ConfigSource.DYNAMIC_BROKER)


def test_lower_levels_apply_in_order() -> None:
    broker_layers = layers(cluster={"log.retention.ms": "3"}, static={"log.retention.ms": "4"})
    assert effective_topic_entry(RETENTION, {}, broker_layers)[1:] == ("3", ConfigSource.DYNAMIC_CLUSTER)
    broker_layers = layers(static={"log.retention.ms": "4", "log.retention.hours": "1"})
    assert effective_topic_entry(RETENTION, {}, broker_layers)[1:] == ("4", ConfigSource.STATIC_BROKER)


def test_minutes_and_hours_are_converted_to_milliseconds() -> None:
    for static, value in (
        ({"log.retention.minutes": "2"}, "120000"),
        ({"log.retention.hours": "2"}, "7200000"),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "180000"),
        ({"log.retention.hours": "-1"}, "-1"),
    ):
        assert effective_topic_entry(RETENTION, {}, layers(static=static)).value == value


def test_the_default_applies_without_any_value() -> None:
    entry = effective_topic_entry(TOPIC_CONFIGS["remote.storage.enable"], {}, layers())
    assert entry == ("remote.storage.enable", "false", ConfigSource.DEFAULT)
    assert effective_topic_entry(RETENTION, {}, layers())[1:] == ("604800000", ConfigSource.DEFAULT)


def test_synonyms_are_ordered_by_priority() -> None:
    broker_layers = layers({"log.segment.bytes": "1"}, {"log.segment.bytes": "2"}, {"log.segment.bytes": "3"})
    assert [entry.source for entry in broker_layers.entries(["log.segment.bytes"])] == [2, 3, 4, 5]


def test_weaker_synonyms_are_reported_only_next_to_the_first_key() -> None:
    names = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert layers().entries_from("log.retention.ms", names) == []
    broker_layers = layers(cluster={"log.retention.ms": "5"})
    assert [entry.name for entry in broker_layers.entries_from("log.retention.ms", names)] == [
        "log.retention.ms",
        "log.retention.hours",
    ]
