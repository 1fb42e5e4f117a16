"""`tidelog produce` and `tidelog consume` with a broker, and together with other clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest

from tests.support.cli import tidelog_failure, tidelog_output
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


class Topic:
    """A topic of three partitions that the command line writes and reads."""

    def __init__(self, broker: EmbeddedCluster) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.name = f"topic-{uuid4().hex[:8]}"
        tidelog_output("topic", "create", self.name, "-p", "3", bootstrap=self.bootstrap)

    def produce(self, data: bytes | str, *options: str) -> str:
        return tidelog_output("produce", self.name, *options, stdin=data, bootstrap=self.bootstrap)

    def consume(self, *options: str) -> str:
        return tidelog_output("consume", self.name, *options, bootstrap=self.bootstrap)

    def failure(self, command: str, *options: str, code: int = 1, stdin: bytes = b"") -> str:
        return tidelog_failure(command, self.name, *options, code=code, stdin=stdin, bootstrap=self.bootstrap)


@pytest.fixture
def topic(broker: EmbeddedCluster) -> Topic:
    return Topic(broker)


@pytest.fixture
def ten_records(topic: Topic) -> Topic:
    """Write the values 0 to 9 to partition 0, at timestamps from 1000 on with steps of 10."""
    producer = confluent_kafka.Producer({"bootstrap.servers": topic.bootstrap})
    for number in range(10):
        producer.produce(topic.name, str(number), partition=0, timestamp=1_000 + 10 * number)
    assert producer.flush(10) == 0
    return topic


# --- produce


def test_lines_are_read_as_written(topic: Topic) -> None:
    topic.produce("one\ntwo\n\nfour", "-p", "1")
    assert topic.consume("-e") == "one\ntwo\n\nfour\n"


def test_keys_headers_and_nulls_are_written(topic: Topic) -> None:
    topic.produce("k:v\nk:\n:\nplain\n", "-K", ":", "-k", "fixed", "-Z", "-p", "0", "-H", "a=1", "-H", "b")
    assert topic.consume("-e", "-Z", "-f", r"%k=%s %h\n") == (
        "k=v a=1,b=NULL\nk=NULL a=1,b=NULL\nNULL=NULL a=1,b=NULL\nfixed=plain a=1,b=NULL\n"
    )


def test_another_delimiter_allows_values_with_line_breaks(topic: Topic) -> None:
    topic.produce(b"a\nb\0c\0", "-D", r"\x00", "-p", "0")
    assert topic.consume("-e", "-f", "<%s>") == "<a\nb><c>"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(topic: Topic, codec: str) -> None:
    topic.produce("same\n" * 50, "-z", codec, "-p", "2")
    assert topic.consume("-e") == "same\n" * 50


def test_verbose_prints_partition_and_offset_of_each_record(topic: Topic) -> None:
    lines = topic.produce("a\nb\nc\n", "-p", "2", "-v").splitlines()
    assert lines == [f"{topic.name} 2 {offset}" for offset in range(3)]


def test_acks_1_and_acks_0_are_accepted(topic: Topic) -> None:
    topic.produce("a\n", "--acks", "1", "-p", "0")
    topic.produce("b\n", "--acks", "0", "-p", "0")
    assert topic.consume("-n", "2") == "a\nb\n"


def test_keyed_records_are_placed_as_by_the_java_partitioner(topic: Topic) -> None:
    topic.produce("".join(f"key{n}:{n}\n" for n in range(30)), "-K", ":")
    ours = dict(line.split() for line in topic.consume("-e", "-f", r"%k %p\n").splitlines())
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": topic.bootstrap, "partitioner": "murmur2_random"}
    )
    theirs: dict[str, str] = {}
    for key in ours:
        producer.produce(
            topic.name,
            key=key,
            on_delivery=lambda _, message: theirs.update({message.key().decode(): str(message.partition())}),
        )
    assert producer.flush(10) == 0
    assert ours == theirs


def test_many_lines_are_written_completely(topic: Topic) -> None:
    data = "".join(f"{number:09d}\n" for number in range(30_000))
    topic.produce(data, "-p", "0")
    assert topic.consume("-e") == data


def test_a_write_error_is_one_line(topic: Topic) -> None:
    assert "has no partition 7: it has 3" in topic.failure("produce", "-p", "7", code=2, stdin=b"a\n")
    long = b"one\ntwo\n" + b"x" * 2_000_000 + b"\nfour\n"
    error = topic.failure("produce", "-p", "0", code=2, stdin=long)
    assert "record 3: no delimiter b'\\n' within 1048576 bytes" in error
    short = topic.failure(
        "produce", "-p", "0", "-X", "max.request.size=90", code=2, stdin=b"three\n" + b"x" * 99
    )
    assert "record 2: no delimiter" in short
    assert topic.consume("-e") == "one\ntwo\nthree\n"


def test_refused_records_fail_the_command(broker: EmbeddedCluster, topic: Topic) -> None:
    tidelog_output(
        "topic", "alter", topic.name, "-c", "max.message.bytes=100", bootstrap=broker.bootstrap_servers
    )
    line = topic.failure("produce", stdin=b"x" * 500 + b"\n")
    assert "1 of 1 record was not written: " in line
    assert line.endswith("[MESSAGE_TOO_LARGE]")


# --- consume


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["-o", "beginning"], "0123456789"),
        (["-o", "end"], ""),
        (["-o", "7"], "789"),
        (["-o", "-2"], "89"),
        (["-o", "-99"], "0123456789"),
        (["-o", "s@1055"], "6789"),
        (["-o", "s@99999"], ""),
        (["-o", "e@1030"], "012"),
        (["-o", "s@1020", "-o", "e@1040"], "23"),
        (["-n", "4"], "0123"),
        (["-o", "8", "-n", "1"], "8"),
        (["-p", "0"], "0123456789"),
        (["-p", "1"], ""),
        (["-p", "1", "-p", "0"], "0123456789"),
    ],
)
def test_reading_starts_and_ends_at_the_given_offsets(
    ten_records: Topic, options: list[str], values: str
) -> None:
    assert ten_records.consume("-e", "-f", "%s", *options) == values


def test_a_count_or_a_time_limit_ends_reading(ten_records: Topic) -> None:
    assert ten_records.consume("-f", "%s", "-n", "3") == "012"
    assert ten_records.consume("-f", "%s", "-p", "0", "-o", "e@1050") == "01234"


def test_a_group_continues_at_its_committed_offset(ten_records: Topic) -> None:
    options = ("-g", f"group-{ten_records.name}", "-f", "%s")
    assert ten_records.consume(*options, "-n", "4") == "0123"
    assert ten_records.consume(*options, "-e") == "456789"
    assert ten_records.consume(*options, "-e") == ""


def test_records_read_but_not_printed_are_not_committed(ten_records: Topic) -> None:
    options = ("-g", f"group-{ten_records.name}", "-f", "%s")
    assert ten_records.consume(*options, "-e", "-o", "e@1030") == "012"
    assert ten_records.consume(*options, "-e") == "3456789"


def test_a_new_group_may_start_at_the_end(ten_records: Topic) -> None:
    options = ("-g", f"group-{ten_records.name}", "-e", "-f", "%s")
    assert ten_records.consume(*options, "-o", "end") == ""
    ten_records.produce("later\n", "-p", "0")
    assert ten_records.consume(*options) == "later"


def test_several_topics_are_read_together(broker: EmbeddedCluster) -> None:
    first, second = Topic(broker), Topic(broker)
    first.produce("a\n")
    second.produce("b\n")
    output = tidelog_output(
        "consume", first.name, second.name, "-e", "-f", r"%t %s\n", bootstrap=broker.bootstrap_servers
    )
    assert sorted(output.splitlines()) == sorted([f"{first.name} a", f"{second.name} b"])


def test_records_are_printed_as_json(topic: Topic) -> None:
    topic.produce(b"k=\xff\n", "-K", "=", "-p", "1", "-H", "h=\u00e4")
    (line,) = topic.consume("-e", "--json").splitlines()
    record: dict[str, Any] = json.loads(line)
    assert record.pop("timestamp") > 1_600_000_000_000
    assert record == {
        "topic": topic.name,
        "partition": 1,
        "offset": 0,
        "timestamp_type": "create_time",
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [{"key": "h", "value": "\u00e4"}],
    }


def test_a_read_error_is_one_line(ten_records: Topic) -> None:
    assert "offset 11 is after the end offset 10" in ten_records.failure("consume", "-o", "11", code=2)
    assert "has no partition 9: it has 3" in ten_records.failure("consume", "-p", "9", code=2)
    missing = tidelog_failure(
        "consume", "missing", "-e", "-X", "default.api.timeout.ms=300", bootstrap=ten_records.bootstrap
    )
    assert "[UNKNOWN_TOPIC_OR_PARTITION]" in missing


def test_options_that_a_share_group_decides_are_rejected(topic: Topic) -> None:
    text = topic.failure("consume", "--share", "workers", "-g", "group", "-o", "end", "-e", code=2)
    assert "--share excludes --group, --offset, --exit" in text
