"""Options have the names and values of Spark's Kafka source; each error is one line with the solution."""

from __future__ import annotations

import pytest

from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.offset_specs import AtOffsets, AtTimestamp, AtTimestamps, Bound
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.source_options import (
    SourceOptions,
    read_includes_headers,
    read_source_options,
)
from tidelog.spark_connector.planning.topic_choice import TopicChoice

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "tides"}


def read(options: dict[str, str] | None = None, *, is_streaming: bool = True) -> SourceOptions:
    return read_source_options({**LEAST, **(options or {})}, is_streaming=is_streaming)


def test_defaults_equal_sparks_source() -> None:
    stream, batch = read(), read(is_streaming=False)
    assert (stream.starting, batch.starting, batch.ending) == (Bound.LATEST, Bound.EARLIEST, Bound.LATEST)
    assert stream.fail_on_data_loss
    assert not stream.include_headers
    assert (stream.max_offsets_per_trigger, stream.min_partitions) == (None, None)
    assert (stream.max_trigger_delay_ms, stream.fetch_offset_retries) == (900_000, 3)
    assert not stream.client.read_committed


def test_option_names_ignore_case() -> None:
    options = read({"MINPARTITIONS": "7", "includeheaders": "TRUE", "maxOffsetsPerTrigger": "10"})
    assert (options.min_partitions, options.include_headers, options.max_offsets_per_trigger) == (7, True, 10)
    assert read_includes_headers({"INCLUDEHEADERS": "true"})
    assert not read_includes_headers({})


def test_topics_are_given_by_subscribe_pattern_or_assign() -> None:
    counts = {"tides": 2, "tides-2": 1, "moons": 3}
    assert read({"subscribe": " tides, ,moons "}).topics.named_topics == ("tides", "moons")
    pattern = TopicChoice(pattern="tides.*")
    assert {topic for topic, _ in pattern.partitions(counts)} == {"tides", "tides-2"}
    assigned = TopicChoice(assigned=frozenset({TopicPartition("moons", 1), TopicPartition("moons", 7)}))
    assert assigned.partitions(counts) == {TopicPartition("moons", 1)}
    assert assigned.missing(counts) == ["moons-7"]
    assert TopicChoice(topics=("tides", "suns")).missing(counts) == ["suns"]


def test_starting_and_ending_options_have_sparks_precedence() -> None:
    at = {"startingOffsets": '{"tides":{"0":5,"1":-2}}'}
    by_time = {"startingOffsetsByTimestamp": '{"tides":{"0":1000}}', **at}
    one_time = {"startingTimestamp": "2000", **by_time}
    first, second = TopicPartition("tides", 0), TopicPartition("tides", 1)
    assert read(at).starting == AtOffsets("startingOffsets", {first: 5, second: -2})
    assert read(by_time).starting == AtTimestamps("startingOffsetsByTimestamp", {first: 1000})
    assert read(one_time).starting == AtTimestamp("startingTimestamp", 2000)
    assert read({"startingOffsets": "EARLIEST"}).starting is Bound.EARLIEST
    assert read({"endingTimestamp": "7"}, is_streaming=False).ending == AtTimestamp("endingTimestamp", 7)


def test_client_options_are_passed_on_by_kafkas_names() -> None:
    client = read(
        {
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.bytes": "1000",
            "kafka.check.crcs": "false",
            "kafka.group.id": "no effect",
            "kafka.ssl.truststore.location": "/ca.pem",
        }
    ).client
    assert client.read_committed
    assert (client.values["fetch_max_bytes"], client.values["check_crcs"]) == (1000, False)
    assert client.values["bootstrap_servers"] == "localhost:9092"
    assert "group_id" not in client.values
    assert client.tls == {"ssl.truststore.location": "/ca.pem"}
    assert "fetch_max_bytes" not in client.admin_values()


def test_trigger_limits_are_ignored_in_batches() -> None:
    assert read({"maxOffsetsPerTrigger": "5"}, is_streaming=False).max_offsets_per_trigger is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": ","}, "Invalid option: subscribe=','; expected names of topics"),
        (
            {"assign": "{}"},
            "exactly one of subscribe, subscribePattern, assign is required",
        ),
        ({"startingOffset": "latest"}, "Unknown option: 'startingOffset'; did you mean startingOffsets"),
        ({"startingOffsets": "5"}, "startingOffsets='5'; expected earliest or latest or JSON"),
        (
            {"startingOffsets": '{"t":{"0":-3}}'},
            "expected an offset, -2 for earliest, -1 for latest; t-0 has -3",
        ),
        ({"startingOffsets": '{"t":{"x":3}}'}, "offset of partition 'x' of topic 't' is 3"),
        ({"startingOffsets": '{"t":{"0":1},"t":{"0":2}}'}, "expected JSON such as"),
        ({"startingTimestamp": "-5"}, "startingTimestamp='-5'; expected a whole number >= 0"),
        ({"startingTimestamp": str(2**63)}, "; expected a whole number <= 9223372036854775807"),
        ({"startingOffsets": f'{{"t":{{"0":{2**63}}}}}'}, "offset of partition '0' of topic 't' is 9223372"),
        ({"startingOffsetsByTimestampStrategy": "none"}, "expected error or latest"),
        ({"endingOffsets": "latest"}, "Invalid option: endingOffsets='latest'; streams have no end"),
        ({"failOnDataLoss": "yes"}, "Invalid option: failOnDataLoss='yes'; expected true or false"),
        ({"minPartitions": "0"}, "Invalid option: minPartitions='0'; expected a whole number >= 1"),
        ({"maxTriggerDelay": "5 moons"}, "expected a duration such as 15m"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "expected at most maxOffsetsPerTrigger=8",
        ),
        ({"kafka.auto.offset.reset": "latest"}, "use the option startingOffsets instead"),
        ({"kafka.fetch.max.byte": "5"}, "kafka.fetch.max.byte'; did you mean fetch_max_bytes"),
        (
            {"kafka.isolation.level": "serializable"},
            "Invalid option: kafka.isolation.level=.*read_uncommitted, read_comm",
        ),
        ({"kafka.fetch.max.bytes": "many"}, "kafka.fetch.max.bytes='many'; expected a whole"),
        ({"kafka.security.protocol": "SASL"}, "SASL_SSL"),
        ({"kafka.bootstrap.servers": "nowhere"}, "Invalid option: kafka.bootstrap.servers=.*host:port"),
    ],
)
def test_an_error_names_option_value_and_allowed_values(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text) as caught:
        read(options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "latest"}, "expected earliest or JSON"),
        ({"endingOffsets": "earliest"}, "expected latest or JSON"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "expected an offset, -2 for earliest; t-0 has -1"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "expected an offset, -1 for latest; t-0 has -2"),
    ],
)
def test_a_batch_cannot_start_at_the_end_or_end_at_the_start(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        read(options, is_streaming=False)


def test_bootstrap_servers_and_topics_are_required() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is required"):
        read_source_options({"subscribe": "tides"}, is_streaming=True)
    with pytest.raises(OptionError, match="Invalid options: none of them"):
        read_source_options({"kafka.bootstrap.servers": "a:1"}, is_streaming=True)


def test_filters_are_pushed_down_only_in_batches() -> None:
    assert read({"pushdown": "true"}, is_streaming=False).pushes_filters
    assert not read(is_streaming=False).pushes_filters
    with pytest.raises(OptionError, match="Invalid option: pushdown='true'; Spark pushes"):
        read({"pushdown": "true"})
