"""Kafka's program for streams groups prints the same for Tidelog and for Apache Kafka, as does Tidelog's."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.kafka_node import MixedCluster
from tests.kafka.separate_brokers import start_separate_broker
from tests.kafka.streams_application import CountReader, Instance
from tests.kafka.tool_transcripts import Entry, Transcript, assert_equal_transcripts
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import Engine
from tests.support.cli import tidelog, tidelog_output
from tests.support.waiting import wait_until

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "500",
}
PARTITIONS = 2
LINES = 12
GROUP = ("--group", "words")
RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w-])[\w-]{22}(?![\w-])")


def test_kafkas_program_prints_the_same(tmp_path: Path) -> None:
    assert_equal_transcripts(tmp_path, write)


def write(engine: Engine, directory: Path) -> list[Entry]:
    """Return what the program prints for a cluster with a broker of `engine`."""
    cluster = MixedCluster(directory)
    try:
        return GroupWork.start(cluster, engine, directory).write()
    finally:
        cluster.end()


@dataclass
class GroupWork:
    """Runs an application, and the program."""

    tools: KafkaTools
    directory: Path
    transcript: Transcript

    @classmethod
    def start(cls, cluster: MixedCluster, engine: Engine, directory: Path) -> GroupWork:
        """Start a controller of Apache Kafka and one broker, and produce lines."""
        topics = {"lines": PARTITIONS, "counts": 1}
        broker = start_separate_broker(cluster, engine, SETTINGS, topics)
        broker.clients.produce("lines", ["word line"] * LINES, PARTITIONS)
        tools = KafkaTools(cluster.jars, broker.node.address)
        return cls(tools, directory, Transcript(tools, RANDOM))

    def write(self) -> list[Entry]:
        """Run the program before, while and after an application runs; return what it prints."""
        self.run("--list")
        self.run("--describe", *GROUP)
        instance = Instance.start(
            self.tools.jars, self.tools.bootstrap_servers, self.directory / "instance", "at_least_once"
        )
        reader = CountReader(self.tools.bootstrap_servers)
        try:
            reader.wait_for({"word": LINES, "line": LINES})
            wait_until(lambda: self._lag() == 0, timeout_s=60)
            self.describe()
            self.run("--delete", *GROUP)
            self.run("--reset-offsets", *GROUP, "--all-input-topics", "--to-earliest", "--dry-run")
            self.run("--delete-offsets", *GROUP, "--input-topic", "lines")
            instance.close()
        finally:
            reader.close()
            instance.kill()
        self.run("--list", "--state")
        self.run("--describe", *GROUP, "--state")
        self.compare_reset_with_tidelog()
        self.run("--reset-offsets", *GROUP, "--input-topic", "lines", "--shift-by", "-3", "--dry-run")
        self.run("--reset-offsets", *GROUP, "--input-topic", "lines:1", "--to-earliest", "--execute")
        self.run("--reset-offsets", *GROUP, "--input-topic", "missing", "--to-earliest", "--execute")
        self.run("--delete-offsets", *GROUP, "--input-topic", "lines")
        self.run("--describe", *GROUP, "--offsets")
        self.run("--delete", *GROUP, "--delete-all-internal-topics")
        self.run("--delete", *GROUP)
        self.run("--list", "--state")
        return self.transcript.entries

    def describe(self) -> None:
        """Run all commands that describe the group."""
        self.run("--list", "--state", "Stable")
        for part in ("--offsets", "--state", "--members"):
            self.run("--describe", *GROUP, part, "--verbose")
        self.compare_with_tidelog()

    def compare_with_tidelog(self) -> None:
        """Check that `tidelog streams-group` shows the states, offsets and lags of Kafka's program."""
        servers = self.tools.bootstrap_servers
        states = json.loads(tidelog_output("streams-group", "list", "--json", bootstrap=servers))
        listed = [[each["group_id"], each["state"]] for each in states]
        assert listed == self._rows("--list", "--state")
        described = tidelog_output("streams-group", "describe", "words", "--json", bootstrap=servers)
        (document,) = json.loads(described)
        own = [
            [
                each["topic"],
                str(each["partition"]),
                "-" if each["committed_offset"] is None else str(each["committed_offset"]),
                str(each["log_end_offset"]),
                str(each["lag"]),
            ]
            for each in document["partitions"]
        ]
        kafkas = self._rows("--describe", *GROUP, "--offsets", "--verbose")
        # Columns: group, topic, partition, committed offset, leader epoch, end, lag.
        assert own == sorted([*row[1:4], *row[5:7]] for row in kafkas)
        assert {row[0] for row in own} == {"lines", "words-words-repartition"}

    def compare_reset_with_tidelog(self) -> None:
        """Check that a dry run of both programs for all topics has the same new offsets."""
        planned = tidelog(
            "streams-group", "reset-offsets", "words", "--all-topics", "--to-earliest", "--json",
            bootstrap=self.tools.bootstrap_servers,
        )  # fmt: skip
        own = [
            [each["topic"], str(each["partition"]), str(each["new_offset"])]
            for each in json.loads(planned.stdout)["partitions"]
        ]
        kafkas = self._rows("--reset-offsets", *GROUP, "--all-input-topics", "--to-earliest", "--dry-run")
        assert own == sorted(row[1:] for row in kafkas)
        assert own

    def _rows(self, *arguments: str) -> list[list[str]]:
        """Return the words of each line about the group that the program prints."""
        lines = self.tools.run("kafka-streams-groups", *arguments).splitlines()
        return [line.split() for line in lines if line.startswith("words ")]

    def _lag(self) -> int:
        """Return the sum of the lags that the program prints; -1 if one is unknown."""
        lines = self.tools.run("kafka-streams-groups", "--describe", *GROUP, "--offsets").splitlines()
        lags = [line.split()[-1] for line in lines if line.startswith("words ")]
        return sum(map(int, lags)) if lags and all(map(str.isdigit, lags)) else -1

    def run(self, *arguments: str) -> None:
        """Run the program."""
        self.transcript.run_groups_tool("kafka-streams-groups", *arguments)
