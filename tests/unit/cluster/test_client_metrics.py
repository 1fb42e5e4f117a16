"""Which configs a client metrics subscription may have, and with which error others are rejected."""

from __future__ import annotations

import pytest

from tidelog.cluster.client_metrics import check_client_metrics, parse_match
from tidelog.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"metrics": ""},
        {"metrics": "*"},
        {"metrics": "a,a"},
        {"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer."},
        {"interval.ms": "100"},
        {"interval.ms": "3600000"},
        {"match": "client_id=a.*, client_software_version = 11\\.1\\.*"},
        {"match": "client_id=a="},
    ],
)
def test_valid_configs_are_accepted(configs: dict[str, str]) -> None:
    check_client_metrics("s", configs)


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("", {}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval": "100"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval.ms": "often"}, ErrorCode.INVALID_CONFIG),
        ("s", {"metrics": "a,,b"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id="}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "color=red"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_invalid_configs_are_rejected_with_the_code_of_kafka(
    name: str, configs: dict[str, str], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as raised:
        check_client_metrics(name, configs)
    assert raised.value.code is code


def test_the_last_of_two_conditions_on_an_attribute_counts() -> None:
    patterns = parse_match(("client_id=a", "client_id=b"))
    assert patterns["client_id"].matches("b") and not patterns["client_id"].matches("a")
