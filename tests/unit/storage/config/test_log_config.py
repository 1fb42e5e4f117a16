"""Topic configs: Kafka's keys, defaults and bounds, and the LogConfig that values give."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.support.configs import log_config
from tidelog.base.config_definition import ConfigError, value_text
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS, log_config_from

# Keys and defaults that Apache Kafka 4.3.1 prints, and those of KIP-1241; an empty text is an empty list.
KAFKAS_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.copy.lag.bytes": "-1",
    "remote.copy.lag.ms": "0",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}

LOWEST = {
    "delete.retention.ms": 0,
    "file.delete.delay.ms": 0,
    "flush.messages": 1,
    "flush.ms": 0,
    "index.interval.bytes": 0,
    "local.retention.bytes": -2,
    "local.retention.ms": -2,
    "max.compaction.lag.ms": 1,
    "max.message.bytes": 0,
    "message.timestamp.after.max.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "remote.copy.lag.bytes": -1,
    "remote.copy.lag.ms": -1,
    "retention.ms": -1,
    "segment.bytes": 1048576,
    "segment.index.bytes": 4,
    "segment.jitter.ms": 0,
    "segment.ms": 1,
    "compression.lz4.level": 1,
    "compression.zstd.level": -131072,
}


def test_keys_and_defaults_equal_kafkas() -> None:
    listed = {key: d.default_text for key, d in TOPIC_CONFIGS.items() if not d.internal}
    assert listed == KAFKAS_DEFAULTS


def test_every_field_of_the_log_config_is_a_topic_config() -> None:
    names = {definition.field_name for definition in TOPIC_CONFIGS.values() if not definition.internal}
    assert {field.name for field in fields(LogConfig)} == names | {"tidelog_source"}


def test_every_topic_config_has_a_documentation() -> None:
    assert all(len(definition.documentation) > 20 for definition in TOPIC_CONFIGS.values())


def test_an_empty_config_has_the_defaults() -> None:
    assert log_config_from({}) == log_config()


def test_kafkas_formatted_defaults_are_parsed_to_the_defaults() -> None:
    assert log_config_from(KAFKAS_DEFAULTS) == log_config()


@pytest.mark.parametrize(("key", "lowest"), LOWEST.items())
def test_the_minimum_is_allowed_and_a_smaller_value_is_refused(key: str, lowest: int) -> None:
    definition = TOPIC_CONFIGS[key]
    assert definition.parse(str(lowest)) == lowest
    with pytest.raises(ConfigError) as error:
        definition.parse(str(lowest - 1))
    assert (error.value.key, error.value.value) == (key, str(lowest - 1))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cleanup.policy", "compact,archive"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("leader.replication.throttled.replicas", "0:1,x"),
        ("follower.replication.throttled.replicas", "*,0:1"),
        ("preallocate", "maybe"),
        ("segment.bytes", str(2**31)),
    ],
)
def test_other_bounds_equal_kafkas(key: str, text: str) -> None:
    with pytest.raises(ConfigError):
        log_config_from({key: text})


def test_values_are_typed_fields() -> None:
    config = log_config_from(
        {
            "cleanup.policy": "compact, delete",
            "retention.ms": "-1",
            "min.cleanable.dirty.ratio": "0.1",
            "preallocate": "true",
            "leader.replication.throttled.replicas": "0:1,1:2",
            "follower.replication.throttled.replicas": "*",
            "message.timestamp.type": "LogAppendTime",
        }
    )
    assert config.cleanup_policy == ("compact", "delete")
    assert config.is_compacted
    assert config.is_deleted_by_retention
    assert config.uses_log_append_time
    assert config.retention_ms == -1
    assert config.min_cleanable_dirty_ratio == 0.1
    assert config.preallocate is True
    assert config.leader_replication_throttled_replicas == ("0:1", "1:2")
    assert config.follower_replication_throttled_replicas == ("*",)


def test_values_override_the_given_defaults() -> None:
    defaults = log_config(retention_ms=5, segment_ms=7)
    config = log_config_from({"segment.ms": "9"}, defaults)
    assert (config.retention_ms, config.segment_ms) == (5, 9)


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"retention\.hours=1; there is no topic config"):
        log_config_from({"retention.hours": "1"})


def test_min_compaction_lag_cannot_exceed_max_compaction_lag() -> None:
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms=10"):
        log_config_from({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_internal_segment_bytes_allows_segments_below_the_bound() -> None:
    assert log_config_from({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_the_default_of_the_maximum_copy_lag_is_local_retention() -> None:
    config = log_config(local_retention_ms=10, local_retention_bytes=20, remote_copy_lag_ms=-1)
    assert (config.effective_remote_copy_lag_ms, config.effective_remote_copy_lag_bytes) == (10, 20)
    config = replace(config, remote_copy_lag_ms=1, remote_copy_lag_bytes=0)
    assert (config.effective_remote_copy_lag_ms, config.effective_remote_copy_lag_bytes) == (1, 0)


def test_local_retention_defaults_to_the_total_retention() -> None:
    config = log_config(retention_ms=10, retention_bytes=20)
    assert (config.effective_local_retention_ms, config.effective_local_retention_bytes) == (10, 20)
    config = log_config(retention_ms=10, retention_bytes=20, local_retention_ms=1, local_retention_bytes=2)
    assert (config.effective_local_retention_ms, config.effective_local_retention_bytes) == (1, 2)


def test_retention_ms_takes_its_default_from_three_broker_keys() -> None:
    synonyms = {synonym.key: synonym.factor for synonym in TOPIC_CONFIGS["retention.ms"].synonyms}
    assert synonyms == {
        "log.retention.ms": 1,
        "log.retention.minutes": 60_000,
        "log.retention.hours": 3_600_000,
    }


def test_every_default_is_read_back_from_its_text() -> None:
    for definition in TOPIC_CONFIGS.values():
        if definition.default is not None:
            assert definition.parse(value_text(definition.default) or "") == definition.default
