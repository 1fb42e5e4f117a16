"""Kafka's program for consumer groups resets and deletes the same with either broker, and prints the same.

One group has the classic protocol, one the consumer protocol. Each way to reset is tried first as a dry run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Producer

from tests.kafka.kafka_node import MixedCluster
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.separate_brokers import start_separate_broker
from tests.kafka.tool_transcripts import Entry, Transcript, assert_equal_transcripts
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import wait_until

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
PARTITIONS = {"t": 3, "u": 2}
RECORDS_PER_PARTITION = 10
HOUR_MS = 3_600_000
FIRST_MS = int(time.time()) * 1000 - 12 * HOUR_MS
"""The timestamp of the first record of each partition; the others follow, one per hour."""
IDS = re.compile(r"console-consumer-[\w-]+|[\w-]{22}\b")
OLD, NEW = "old", "new"


def at_hour(hours: float) -> str:
    """Return the time that is so much later than the first record, as an argument of `--to-datetime`."""
    return datetime.fromtimestamp(FIRST_MS / 1000 + hours * 3600, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")


def test_kafkas_program_resets_and_deletes_the_same(tmp_path: Path) -> None:
    (tmp_path / "one-group.csv").write_text("t,0,3\nt,2,7\nu,1,0\n")
    (tmp_path / "two-groups.csv").write_text("old,t,1,2\nnew,u,0,5\n")
    (tmp_path / "bad.csv").write_text("t,zero,3\n")
    assert_equal_transcripts(tmp_path, write)


def write(engine: Engine, directory: Path) -> list[Entry]:
    """Return what the program prints for a cluster with a broker of `engine`."""
    cluster = MixedCluster(directory)
    try:
        return Groups.start(cluster, engine, directory.parent).write()
    finally:
        cluster.end()


def produce_hourly(servers: str) -> None:
    """Write the records of all partitions."""
    producer = Producer({"bootstrap.servers": servers})
    for topic, count in PARTITIONS.items():
        for partition in range(count):
            for number in range(RECORDS_PER_PARTITION):
                timestamp = FIRST_MS + number * HOUR_MS
                producer.produce(topic, str(number), partition=partition, timestamp=timestamp)
    assert producer.flush(WITHIN_S) == 0


@dataclass
class Groups:
    """The groups, and the program; `files` is the folder of the files with offsets."""

    clients: MixedClients
    files: Path
    transcript: Transcript

    @classmethod
    def start(cls, cluster: MixedCluster, engine: Engine, files: Path) -> Groups:
        """Start a controller of Apache Kafka and one broker; produce records, and read as both groups."""
        broker = start_separate_broker(cluster, engine, SETTINGS, PARTITIONS)
        produce_hourly(broker.node.address)
        for group, protocol in ((OLD, "classic"), (NEW, "consumer")):
            for topic, count in PARTITIONS.items():
                total = count * RECORDS_PER_PARTITION
                broker.clients.read_as_group(group, topic, total, protocol=protocol)
        tools = KafkaTools(cluster.jars, broker.node.address)
        return cls(broker.clients, files, Transcript(tools, IDS))

    def write(self) -> list[Entry]:
        """Run the program; return what it prints."""
        self.reset_in_each_way()
        self.refuse_bad_resets()
        self.work_with_a_member()
        self.delete()
        return self.transcript.entries

    def reset_in_each_way(self) -> None:
        """Reset by each option; the scopes are all topics, one topic, and partitions of a topic."""
        ways: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] = (
            (OLD, ("--all-topics",), ("--to-earliest",)),
            (NEW, ("--topic", "t"), ("--to-earliest",)),
            (OLD, ("--topic", "t:0,2"), ("--to-offset", "4")),
            (NEW, ("--topic", "t"), ("--to-offset", "400")),
            (NEW, ("--topic", "t", "--topic", "u:1"), ("--shift-by", "-2")),
            (OLD, ("--topic", "t"), ("--shift-by", "100")),
            (OLD, ("--all-topics",), ("--to-datetime", at_hour(2.5))),
            (NEW, ("--topic", "u"), ("--to-datetime", at_hour(3) + "Z")),
            (NEW, ("--topic", "t:1"), ("--to-datetime", at_hour(0) + "+01:00")),
            # After the last record: the end.
            (OLD, ("--topic", "u"), ("--to-datetime", at_hour(100))),
            (NEW, ("--all-topics",), ("--by-duration", "PT6H30M")),
            (OLD, ("--topic", "t"), ("--to-current",)),
            (OLD, (), ("--from-file", str(self.files / "one-group.csv"))),
            (NEW, ("--all-topics",), ("--to-latest",)),
        )
        for group, scope, way in ways:
            for action in ("--dry-run", "--execute"):
                self.run("--reset-offsets", "--group", group, *scope, *way, action)
            self.note_offsets(group)
        self.run("--reset-offsets", "--group", OLD, "--all-topics", "--to-current", "--export")
        groups = ("--group", OLD, "--group", NEW)
        from_file = ("--from-file", str(self.files / "two-groups.csv"))
        self.run("--reset-offsets", *groups, *from_file, "--dry-run", "--export")
        self.run("--reset-offsets", *groups, *from_file, "--execute")
        self.run("--reset-offsets", "--all-groups", "--topic", "u", "--to-earliest", "--execute")
        self.note_offsets(OLD, NEW)

    def refuse_bad_resets(self) -> None:
        """Reset what does not exist, or without what is needed."""
        earliest = ("--to-earliest", "--execute")
        self.run("--reset-offsets", "--group", OLD, "--topic", "missing", *earliest)
        self.run("--reset-offsets", "--group", OLD, "--topic", "t:7", *earliest)
        self.run("--reset-offsets", "--group", "fresh", "--topic", "u", *earliest)
        self.run("--reset-offsets", "--group", "fresh", "--all-topics", *earliest)
        self.run("--reset-offsets", "--group", OLD, "--from-file", str(self.files / "bad.csv"), "--dry-run")
        self.run("--reset-offsets", "--group", OLD, "--topic", "t", "--to-datetime", "noon", "--dry-run")
        self.note_offsets(OLD, "fresh")

    def work_with_a_member(self) -> None:
        """Reset and delete while the group of the consumer protocol has a member."""
        arguments = ("--topic", "t", "--group", NEW, "--command-property", "group.protocol=consumer")
        with self.transcript.tools.running("kafka-console-consumer", *arguments):
            self.wait_for_state(NEW, "Stable")
            self.run("--reset-offsets", "--group", NEW, "--topic", "t", "--to-earliest", "--execute")
            self.run("--delete-offsets", "--group", NEW, "--topic", "t")
            self.run("--delete-offsets", "--group", NEW, "--topic", "u")
            self.run("--delete", "--group", NEW, "--group", OLD, "--group", "missing")
        self.wait_for_state(NEW, "Empty")

    def delete(self) -> None:
        """Delete offsets, and the groups."""
        self.run(
            "--delete-offsets", "--group", NEW, "--topic", "t:0,1", "--topic", "u:0", "--topic", "missing"
        )
        self.note_offsets(NEW)
        self.run("--delete-offsets", "--group", "missing", "--topic", "t")
        self.run("--describe", "--all-groups", "--offsets")
        self.run("--delete", "--all-groups")
        self.run("--delete", "--group", NEW)
        self.run("--list", "--state")

    def run(self, *arguments: str) -> None:
        """Run the program."""
        self.transcript.run_groups_tool("kafka-consumer-groups", *arguments)

    def note_offsets(self, *groups: str) -> None:
        """Add the committed offsets of all partitions to the transcript."""
        for group in groups:
            for topic, count in PARTITIONS.items():
                offsets = self.clients.committed_offsets(group, topic, count)
                self.transcript.entries.append(("offsets", group, topic, *map(str, offsets)))

    def wait_for_state(self, group: str, state: str) -> None:
        """Wait until the group has a state."""

        def has_state() -> bool:
            listed = self.transcript.tools.run("kafka-consumer-groups", "--list", "--state")
            return any(line.split() == [group, state] for line in listed.splitlines())

        wait_until(has_state, timeout_s=WITHIN_S)
