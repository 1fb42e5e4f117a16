"""The configuration of the topic-based metadata manager."""

from __future__ import annotations

import pytest

from tests.support.tier.metadata_managers import metadata_topic_config
from tidelog.remote.metadata.config import MetadataTopicConfig, client_options


def test_defaults_equal_kafkas() -> None:
    assert MetadataTopicConfig.of({}) == MetadataTopicConfig(
        partitions=50,
        replication_factor=3,
        retention_ms=-1,
        min_isr=2,
        consume_wait_ms=120_000,
        initialization_retry_max_timeout_ms=120_000,
        initialization_retry_interval_ms=100,
    )
    assert metadata_topic_config().topic_configs == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "min.insync.replicas": "2",
        "remote.storage.enable": "false",
    }


def test_kafkas_keys_are_read_and_others_passed_on() -> None:
    values = {
        "remote.log.metadata.topic.num.partitions": "3",
        "remote.log.metadata.topic.replication.factor": "1",
        "remote.log.metadata.topic.retention.ms": "5",
        "remote.log.metadata.topic.min.isr": "1",
        "remote.log.metadata.consume.wait.ms": "6",
        "remote.log.metadata.initialization.retry.max.timeout.ms": "7",
        "remote.log.metadata.initialization.retry.interval.ms": "8",
        "other.component": "x",
    }
    assert MetadataTopicConfig.of(values) == metadata_topic_config(
        partitions=3,
        replication_factor=1,
        retention_ms=5,
        min_isr=1,
        consume_wait_ms=6,
        initialization_retry_max_timeout_ms=7,
        initialization_retry_interval_ms=8,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [("topic.num.partitions", "0"), ("topic.retention.ms", "0"), ("consume.wait.ms", "soon")],
)
def test_an_invalid_value_is_refused_with_its_key(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"remote.log.metadata.{key}={value}; allowed is "):
        MetadataTopicConfig.of({f"remote.log.metadata.{key}": value})


def test_options_of_one_client_override_common_ones() -> None:
    values = {
        "remote.log.metadata.common.client.request.timeout.ms": "1",
        "remote.log.metadata.common.client.retry.backoff.ms": "2",
        "remote.log.metadata.consumer.request.timeout.ms": "3",
        "remote.log.metadata.producer.linger.ms": "4",
    }
    assert client_options(values, "consumer") == {"request_timeout_ms": "3", "retry_backoff_ms": "2"}
    assert client_options(values, "producer") == {
        "request_timeout_ms": "1",
        "retry_backoff_ms": "2",
        "linger_ms": "4",
    }
