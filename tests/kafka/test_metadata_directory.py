"""One directory, used alternately by Tidelog and by Apache Kafka: metadata log, snapshots, records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kafka.directory_node import Node
from tests.kafka.tools import KafkaTools


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, os.environ["TIDELOG_KAFKA_JARS"])


def create(tools: KafkaTools, *names: str) -> None:
    for name in names:
        tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "5")


def topics(tools: KafkaTools) -> set[str]:
    return set(tools.run("kafka-topics", "--list").split())


def test_kafka_and_tidelog_continue_with_each_others_metadata_directory(node: Node) -> None:
    node.format()
    with node.run_as("tidelog") as tools:
        create(tools, "a", "b", "c", "d")
        tools.run("kafka-console-producer", "--topic", "a", stdin="ours\n")
    ours = node.snapshots()
    assert len(ours) > 1
    with node.run_as("kafka") as tools:
        assert topics(tools) >= {"a", "b", "c", "d"}
        create(tools, "e", "f", "g")
        tools.run("kafka-console-producer", "--topic", "a", stdin="kafka's\n")
    assert node.snapshots() - ours
    with node.run_as("tidelog") as tools:
        assert topics(tools) >= {"a", "b", "c", "d", "e", "f", "g"}
        create(tools, "h")
        status = tools.run("kafka-metadata-quorum", "describe", "--status")
        assert "LeaderEpoch:            3" in status
        options = ["--topic", "a", "--from-beginning", "--max-messages", "2"]
        read = tools.run("kafka-console-consumer", *options)
        assert sorted(read.split("\n")) == ["", "kafka's", "ours"]
