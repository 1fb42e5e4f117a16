"""Options and columns of a sink are checked when a query is planned; errors name the option or column."""

from __future__ import annotations

import re

import pytest

from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.sink_columns import ALLOWED, ColumnError, check_columns
from tidelog.spark_connector.planning.sink_options import SinkOptions, read_sink_options

LEAST = {"kafka.bootstrap.servers": "localhost:9092"}


def read(**options: str) -> SinkOptions:
    return read_sink_options({**LEAST, **{name.replace("_", "."): text for name, text in options.items()}})


def test_options_of_sparks_kafka_sink_are_accepted() -> None:
    options = read_sink_options(
        {
            **LEAST,
            "TOPIC": " tides ",
            "checkpointLocation": "c",
            "queryName": "q",
            "includeHeaders": "true",
            "kafka.compression.type": "zstd",
            "kafka.Linger.ms": "20",
            "kafka.compression.level": "3",
            "kafka.ssl.truststore.type": "PEM",
        }
    )
    assert options.topic == "tides"
    assert options.client.values["compression_type"] == "zstd"
    assert options.client.values["linger_ms"] == 20
    assert options.client.values["compression_level"] == 3
    assert options.client.tls == {"ssl.truststore.type": "PEM"}
    assert read(kafka_acks="-1").topic is None


@pytest.mark.parametrize(
    ("option", "text", "refusal"),
    [
        ("topik", "tides", "Unknown option: 'topik'; did you mean topic?"),
        ("startingOffsets", "latest", "Unknown option: 'startingOffsets'; expected kafka.* or one of"),
        ("topic", " ", "Invalid option: topic=' '; expected the name of a topic"),
        ("includeHeaders", "maybe", "Invalid option: includeHeaders='maybe'; expected true or false"),
        ("kafka.acks", "1", "Invalid option: kafka.acks="),
        ("kafka.acks", "0", "Invalid option: kafka.acks="),
        (
            "kafka.key.serializer",
            "x",
            "option kafka.key.serializer is not supported: the column key is string",
        ),
        ("kafka.transactional.id", "x", "option kafka.transactional.id is not supported"),
        ("kafka.partitioner.class", "x", "option kafka.partitioner.class is not supported: use the column"),
        ("kafka.lingerms", "5", "Unknown option: 'kafka.lingerms'; did you mean"),
        ("kafka.linger.ms", "-1", "Invalid option: kafka.linger.ms=-1; expected a whole number"),
        ("kafka.max.poll.records", "5", "Unknown option: 'kafka.max.poll.records'"),
        ("kafka.sasl.login.class", "PLAIN", "Unknown option"),
    ],
)
def test_an_invalid_option_is_refused_by_name(option: str, text: str, refusal: str) -> None:
    with pytest.raises(OptionError, match=re.escape(refusal)):
        read_sink_options({**LEAST, option: text})


def test_acks_other_than_all_are_refused() -> None:
    with pytest.raises(OptionError, match=r"kafka\.acks='1'; expected all"):
        read(kafka_acks="1", kafka_enable_idempotence="false")


def test_columns_are_found_by_name_and_others_are_ignored() -> None:
    columns = check_columns(
        [("offset", "bigint"), *((name, kinds[0]) for name, kinds in ALLOWED.items())], topic=None
    )
    assert [columns.position(name) for name in ALLOWED] == [1, 2, 3, 4, 5, 6]
    least = check_columns([("value", "string collate UNICODE")], topic="tides")
    assert (least.position("value"), least.position("key"), least.topic) == (0, None, "tides")


@pytest.mark.parametrize(
    ("columns", "refusal"),
    [
        ({"key": "string", "topic": "string"}, "there is no column 'value' (string or binary) among"),
        ({"value": "bigint", "topic": "string"}, "column 'value' has type bigint: expected string or binary"),
        ({"value": "string", "topic": "binary"}, "column 'topic' has type binary: expected string"),
        ({"value": "string", "topic": "string", "partition": "bigint"}, "column 'partition' has type bigint"),
        ({"value": "string", "topic": "string", "timestamp": "bigint"}, "expected timestamp"),
        ({"value": "string", "topic": "string", "headers": "map<string,binary>"}, "column 'headers'"),
        ({"value": "string", "topic": "string", "Key": "string"}, "column 'Key': it is written 'key'"),
        ({"value": "string"}, "a topic is required: set the option topic, or have a column 'topic'"),
    ],
)
def test_a_dataframe_with_an_invalid_column_is_refused(columns: dict[str, str], refusal: str) -> None:
    with pytest.raises(ValueError, match=re.escape(refusal)):
        check_columns(columns.items(), topic=None)


def test_a_duplicate_column_is_refused() -> None:
    with pytest.raises(ColumnError, match="two columns 'value'"):
        check_columns([("value", "string"), ("value", "string")], topic="tides")
