"""Kafka's program for streams groups prints the same for Tidelog and for Apache Kafka, as does Tidelog's."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.kafka.kafka_node import MixedCluster
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.separate_brokers import start_separate_broker
from tests.kafka.streams_application import CountReader, Instance
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
    transcripts = []
    for engine in (Engine.TIDELOG, Engine.KAFKA):
        (tmp_path / engine.value).mkdir()
        transcript = Transcript.start(engine, tmp_path / engine.value)
        try:
            transcript.write()
        finally:
            transcript.cluster.end()
        transcripts.append(transcript.entries)
    for own, kafkas in zip(*transcripts, strict=True):
        assert own == kafkas


@dataclass
class Transcript:
    """What the program prints, each output with the command before it."""

    cluster: MixedCluster
    clients: MixedClients
    tools: KafkaTools
    path: Path
    entries: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def start(cls, engine: Engine, path: Path) -> Transcript:
        """Start a controller of Apache Kafka and one broker, and produce lines."""
        topics = {"lines": PARTITIONS, "counts": 1}
        broker = start_separate_broker(MixedCluster(path), engine, SETTINGS, topics)
        broker.clients.produce("lines", ["word line"] * LINES, PARTITIONS)
        tools = KafkaTools(broker.cluster.jars, broker.node.address)
        return cls(broker.cluster, broker.clients, tools, path)

    def write(self) -> None:
        """Run the program before, while and after an application runs."""
        self.run("--list")
        self.run("--describe", *GROUP)
        instance = Instance.start(
            self.cluster.jars, self.tools.bootstrap_servers, self.path / "instance", "at_least_once"
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
        """Run the program; keep its lines, sorted and without ids and ports."""
        done = self.tools.call("kafka-streams-groups", *arguments)
        lines = sorted(
            normalize(line)
            for line in (*done.stdout.splitlines(), *done.stderr.splitlines())
            if line.strip() and not line.startswith("\tat ")
        )
        self.entries.append((*arguments, str(done.returncode), *lines))


def normalize(line: str) -> str:
    """Return a line with single spaces, and without ids of members and processes, ports and times."""
    without_ids = RANDOM.sub("ID", line)
    without_times = re.sub(r"\[\d{4}-\d\d-\d\d [\d:,]+\]", "TIME", without_ids)
    return " ".join(re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT", without_times).split())
