"""A Kafka Streams application with a broker of Tidelog only: both group protocols, exactly_once_v2."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.streams_application import CountReader, Instance
from tests.kafka.tools import KafkaTools
from tests.support.waiting import TIMEOUT_S
from tidelog.testing.embedded import EmbeddedCluster

JARS = Path(os.environ["TIDELOG_KAFKA_JARS"])
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "0",
}
PROPERTIES = ("session.timeout.ms=6000", "producer.transaction.timeout.ms=6000")
"""The partitions and the transaction of an instance that was killed become free after six seconds."""
PARTITIONS = 3
LINES = 300
WORDS = 10
TYPES = {"classic": "Classic", "streams": "Streams"}


@pytest.fixture
def servers() -> Iterator[str]:
    """Run a broker with the topics of the application."""
    with EmbeddedCluster(config=CONFIG) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = [NewTopic("lines", PARTITIONS, 1), NewTopic("counts", 1, 1)]
        for created in admin.create_topics(topics).values():
            created.result(TIMEOUT_S)
        yield cluster.bootstrap_servers


def write_lines(servers: str) -> Counter[str]:
    """Write lines of two words; return the count of each word."""
    producer = Producer({"bootstrap.servers": servers})
    counts = Counter[str]()
    for number in range(LINES):
        line = f"word{number % WORDS} line"
        producer.produce("lines", line, partition=number % PARTITIONS)
        counts.update(line.split())
    assert producer.flush(TIMEOUT_S) == 0
    return counts


@pytest.mark.parametrize("protocol", TYPES)
def test_words_are_counted_exactly_once_although_an_instance_is_killed(
    servers: str, protocol: str, tmp_path: Path
) -> None:
    def start(name: str) -> Instance:
        properties = (*PROPERTIES, f"group.protocol={protocol}")
        return Instance.start(JARS, servers, tmp_path / name, "exactly_once_v2", *properties)

    reader = CountReader(servers)
    instances = [start("first"), start("second")]
    try:
        expected = write_lines(servers)
        for instance in instances:
            instance.wait_until_running()
        reader.wait_for(expected)
        listed = KafkaTools(JARS, servers).run("kafka-groups", "--list")
        row = next(line.split() for line in listed.splitlines() if line.startswith("words "))
        assert row[1] == TYPES[protocol], listed
        expected += write_lines(servers)
        instances[0].kill()
        expected += write_lines(servers)
        reader.wait_for(expected)
        instances[1].close()
    finally:
        reader.close()
        for instance in instances:
            instance.kill()
    assert reader.repeated == 0, "a word was counted twice"
