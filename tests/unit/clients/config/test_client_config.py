from __future__ import annotations

import re
from typing import Any

import pytest

from tidelog.clients.config.client_config import AdminConfig, ConsumerConfig, ProducerConfig, make_config
from tidelog.clients.config.options import ConfigError, parse_bootstrap_servers
from tidelog.protocol.errors import ErrorCode


def test_defaults_equal_kafkas() -> None:
    producer = ProducerConfig()
    assert (producer.required_acks, producer.batch_size, producer.linger_ms) == (-1, 16_384, 5)
    assert (producer.buffer_memory, producer.delivery_timeout_ms) == (33_554_432, 120_000)
    consumer = ConsumerConfig()
    assert (consumer.max_poll_records, consumer.session_timeout_ms) == (500, 45_000)
    assert (consumer.auto_offset_reset, consumer.isolation_level) == ("latest", "read_uncommitted")


@pytest.mark.parametrize(
    ("kind", "options", "shown"),
    [
        (ProducerConfig, {"acks": 2}, "acks=2"),
        (ProducerConfig, {"acks": 1}, "acks=1"),  # with idempotence enabled
        (ProducerConfig, {"retries": 0}, "retries=0"),
        (ProducerConfig, {"max_in_flight_requests_per_connection": 6}, "=6"),
        (ProducerConfig, {"compression_type": "brotli"}, "'brotli'"),
        (ProducerConfig, {"batch_size": -1}, "batch_size=-1"),
        (ProducerConfig, {"buffer_memory": 0}, "buffer_memory=0"),
        (ProducerConfig, {"client_id": 5}, "client_id=5"),
        (ProducerConfig, {"compression_type": "gzip", "compression_level": -5}, "compression_level=-5"),
        (ProducerConfig, {"compression_type": "lz4", "compression_level": 18}, "whole number 1..17"),
        (ProducerConfig, {"compression_type": "zstd", "compression_level": "9"}, "compression_level='9'"),
        (ProducerConfig, {"acks": "most"}, "one of 0, 1, -1, all"),
        (ProducerConfig, {"delivery_timeout_ms": 10}, "delivery_timeout_ms=10"),
        (ProducerConfig, {"linger_ms": 1.5}, "linger_ms=1.5"),
        (ProducerConfig, {"enable_idempotence": "yes"}, "'yes'"),
        (ConsumerConfig, {"auto_offset_reset": "newest"}, "'newest'"),
        (ConsumerConfig, {"isolation_level": "serializable"}, "'serializable'"),
        (ConsumerConfig, {"group_id": ""}, "group_id=''"),
        (ConsumerConfig, {"group_id": 7}, "group_id=7"),
        (ConsumerConfig, {"heartbeat_interval_ms": 45_000}, "heartbeat_interval_ms=45000"),
        (ConsumerConfig, {"partition_assignment_strategy": "range"}, "'range'"),
        (ConsumerConfig, {"partition_assignment_strategy": ["best"]}, "'best'"),
        (ConsumerConfig, {"max_poll_records": 0}, "max_poll_records=0"),
        (AdminConfig, {"security_protocol": "SASL"}, "'SASL'"),
        (AdminConfig, {"request_timeout_ms": 0}, "request_timeout_ms=0"),
    ],
)
def test_an_invalid_value_is_refused_with_its_option(kind: Any, options: dict[str, Any], shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(kind, options)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert shown in str(caught.value)
    assert "expected" in str(caught.value)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("linger", "did you mean linger_ms"),
        ("linger.ms", "did you mean linger_ms?"),
        ("compresion_type", "did you mean compression_type"),
        ("zebra", "expected one of acks, batch_size"),
    ],
)
def test_an_unknown_option_is_refused_with_similar_names(option: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"Unknown option: '{re.escape(option)}'") as caught:
        make_config(ProducerConfig, {option: 5})
    assert hint in str(caught.value)


@pytest.mark.parametrize("servers", [None, 9092, ["a:1", 5], [("a", 1)]])
def test_bootstrap_servers_that_are_not_text_are_refused_by_name(servers: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers="):
        make_config(ProducerConfig, {"bootstrap_servers": servers})


def test_bootstrap_servers_are_given_as_text_or_as_a_list() -> None:
    expected = (("a", 1), ("b.example", 65_535))
    assert parse_bootstrap_servers("a:1, b.example:65535,") == expected
    assert parse_bootstrap_servers(["a:1", "b.example:65535"]) == expected
    assert parse_bootstrap_servers("[::1]:9092") == (("::1", 9092),)


@pytest.mark.parametrize("servers", ["", "host", "host:", ":9092", "host:0", "host:65536", "host:x", []])
def test_a_server_without_host_or_port_is_refused(servers: str | list[str]) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        parse_bootstrap_servers(servers)


def test_cve_2024_31141_options_of_a_client_are_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "canary")
    config = make_config(AdminConfig, {"client_id": "${env:SECRET}"})
    assert config.client_id == "${env:SECRET}"
    with pytest.raises(ConfigError, match="config_providers"):
        make_config(AdminConfig, {"config_providers": "env"})
