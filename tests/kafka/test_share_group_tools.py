"""Kafka's programs for share groups print the same with a broker of Tidelog and of Apache Kafka."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.kafka_node import MixedCluster
from tests.kafka.separate_brokers import start_separate_broker
from tests.kafka.tool_transcripts import Entry, Transcript, assert_equal_transcripts
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import Engine
from tests.support.waiting import wait_until

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    # By default a member that joins within a second of the last assignment waits for the next one, which then
    # has the initialized partitions as well: the group has one epoch less than on a slower machine.
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
PARTITIONS = 3
RECORDS = 12
GROUP = ("--group", "g")
SHOWN = tuple(
    word
    for name in ("partition", "offset", "delivery")
    for word in ("--formatter-property", f"print.{name}=true")
)
MEMBER_ID = re.compile(r"[\w-]{22}\b")


def test_kafkas_programs_print_the_same(tmp_path: Path) -> None:
    assert_equal_transcripts(tmp_path, write)


def write(engine: Engine, directory: Path) -> list[Entry]:
    """Return what the programs print for a cluster with a broker of `engine`."""
    cluster = MixedCluster(directory)
    try:
        return GroupWork.start(cluster, engine).write()
    finally:
        cluster.end()


@dataclass
class GroupWork:
    """Consumes as members of the group, and runs the programs."""

    tools: KafkaTools
    transcript: Transcript

    @classmethod
    def start(cls, cluster: MixedCluster, engine: Engine) -> GroupWork:
        """Start a controller of Apache Kafka and one broker, and produce records."""
        topics = dict.fromkeys(("t", "u"), PARTITIONS)
        broker = start_separate_broker(cluster, engine, SETTINGS, topics)
        for name in topics:
            broker.clients.produce(name, [f"{name}{number}" for number in range(RECORDS)], PARTITIONS)
        tools = KafkaTools(cluster.jars, broker.node.address)
        return cls(tools, Transcript(tools, MEMBER_ID))

    def write(self) -> list[Entry]:
        """Run the programs; return what they print."""
        self.run("kafka-share-groups", "--list")
        self.run("kafka-share-groups", "--describe", *GROUP)
        self.run(
            "kafka-configs",
            "--alter",
            "--entity-type",
            "groups",
            "--entity-name",
            "g",
            "--add-config",
            "share.auto.offset.reset=earliest,share.record.lock.duration.ms=15000",
        )
        self.consume("t", RECORDS)
        self.describe()
        self.run(
            "kafka-share-groups", "--reset-offsets", *GROUP, "--topic", "t", "--to-earliest", "--dry-run"
        )
        self.run(
            "kafka-share-groups", "--reset-offsets", *GROUP, "--topic", "t:0,2", "--to-earliest", "--execute"
        )
        self.describe()
        self.consume("t", 8, "--reject")
        self.consume("u", RECORDS, "--reject")
        self.describe()
        self.run(
            "kafka-share-groups", "--reset-offsets", *GROUP, "--all-topics", "--to-earliest", "--execute"
        )
        self.run("kafka-share-groups", "--reset-offsets", *GROUP, "--all-topics", "--to-latest", "--execute")
        self.run(
            "kafka-share-groups", "--reset-offsets", *GROUP, "--topic", "missing", "--to-latest", "--execute"
        )
        self.run("kafka-share-groups", "--delete-offsets", *GROUP, "--topic", "t")
        self.describe()
        with self.tools.running("kafka-console-share-consumer", "--topic", "u", *GROUP):
            wait_until(
                lambda: "Stable" in self.tools.run("kafka-share-groups", "--list", "--state"), timeout_s=60
            )
            self.describe()
            self.run("kafka-share-groups", "--delete", *GROUP)
            self.run("kafka-share-groups", "--delete-offsets", *GROUP, "--topic", "u")
            self.run(
                "kafka-share-groups", "--reset-offsets", *GROUP, "--topic", "u", "--to-latest", "--execute"
            )
        wait_until(lambda: "Empty" in self.tools.run("kafka-share-groups", "--list", "--state"), timeout_s=60)
        self.run("kafka-share-groups", "--delete", *GROUP)
        self.run("kafka-share-groups", "--delete", *GROUP)
        self.run("kafka-share-groups", "--list", "--state")
        return self.transcript.entries

    def describe(self) -> None:
        """Run all commands that describe the group."""
        self.run("kafka-share-groups", "--list", "--state")
        for part in ("--offsets", "--state", "--members"):
            self.run("kafka-share-groups", "--describe", *GROUP, part)
            self.run("kafka-share-groups", "--describe", *GROUP, part, "--verbose")

    def run(self, tool: str, *arguments: str) -> None:
        """Run a program."""
        if tool == "kafka-share-groups":
            self.transcript.run_groups_tool(tool, *arguments)
        else:
            self.transcript.run(tool, *arguments)

    def consume(self, topic: str, count: int, *options: str) -> None:
        """Consume as a member of the group."""
        self.run(
            "kafka-console-share-consumer",
            "--topic",
            topic,
            *GROUP,
            "--max-messages",
            str(count),
            "--timeout-ms",
            "60000",
            *SHOWN,
            *options,
        )
