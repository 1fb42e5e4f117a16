"""`tidelog tier restore --at`: a topic as it was at a time, by reference, and the lives of both topics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.integration.cli.test_cli_tier_restore import TIMEOUT_S, bucket_options, storage_config
from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import Received
from tests.support.nodes.killed_restore import TravelStep
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

CONFLUENT = CLIENTS["confluent"]
COUNT = 4_000
AT_RECORD = 2_600
"""A record in the third segment; each has about 1,140 records."""


class SourceCluster:
    """A cluster with a tiered topic with transactions of 100 records and the broker's time."""

    def __init__(self, tier: Path) -> None:
        self.tier = tier
        self.cluster = EmbeddedCluster(tiered=True, config=storage_config(tier))
        self.cluster.start()
        self.topics = TieredTopics(self.cluster)
        self.at_ms: dict[str, int] = {}
        self.records: dict[str, list[Received]] = {}

    def fill(self, topic: str) -> list[Received]:
        """Create and fill a topic; return what is in remote storage, as clients read it."""
        self.topics.create(topic, {"message.timestamp.type": "LogAppendTime"})
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "transactional.id": topic, "log_level": 0}
        )
        producer.init_transactions(TIMEOUT_S)
        for first in range(0, COUNT, 100):
            producer.begin_transaction()
            for number in range(first, first + 100):
                producer.produce(topic, b"%d " % number + bytes(900))
            producer.flush(TIMEOUT_S)
            if first % 300 == 0:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
        self.topics.wait_until_tiered(topic)
        records = self.read(topic, COUNT)
        self.at_ms[topic] = records[AT_RECORD].timestamp_ms or 0
        self.records[topic] = records
        return records

    def records_before(self, topic: str, end: int) -> list[Received]:
        """Return the records of a filled topic below an offset."""
        return [each for each in self.records[topic] if each.offset < end]

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def read(self, topic: str, count: int, isolation: str = "read_uncommitted") -> list[Received]:
        """Return records without the name of their topic."""
        clients = ClientFactory(self.servers)
        records = clients.consume(CONFLUENT, topic, count, isolation=isolation)
        clients.close()
        return [replace(each, topic="") for each in records]

    def restore(self, topic: str, name: str, *arguments: str) -> dict[str, Any]:
        """Restore `topic` as of the time of AT_RECORD; return the partition in the report."""
        text = tidelog_output(
            *("tier", "restore", topic, "--at", str(self.at_ms[topic]), "--as", name, "--json", *arguments),
            *bucket_options(self.tier),
            bootstrap=self.servers,
        )
        (document,) = json.loads(text)
        (partition,) = document["partitions"]
        return {**partition, "restored": document["restored"]}

    def objects(self, part: str) -> dict[Path, int]:
        """Return the sizes of the objects whose path contains `part`."""
        sizes = {}
        # Unlike rglob, os.walk tolerates that directories are removed during the walk.
        for folder, _, names in os.walk(self.tier):
            for name in names:
                path = Path(folder, name)
                if part in str(path) and ".uploads" not in path.parts:
                    with suppress(FileNotFoundError):
                        sizes[path] = path.stat().st_size
        return sizes

    def has(self, topic: str) -> bool:
        return self.cluster.run(lambda node: topic in node.services.image().topics_by_name)

    def require_clean_bucket(self) -> None:
        """Require that fsck finds neither loss nor damage nor leftovers: its status is 0."""
        tidelog_output("tier", "fsck", "--all", *bucket_options(self.tier), bootstrap=self.servers)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SourceCluster]:
    running = SourceCluster(tmp_path_factory.mktemp("tier"))
    yield running
    running.cluster.stop()


def test_a_topic_as_of_a_time_has_the_records_up_to_it_and_its_own_life(source: SourceCluster) -> None:
    before = source.fill("tides")
    objects = source.objects("tides-")
    plan = source.restore("tides", "yesterday")
    assert not plan["restored"] and not source.has("yesterday")
    assert source.objects("tides-") == objects

    report = source.restore("tides", "yesterday", "--execute")
    end = report["log_end_offset"]
    assert end == plan["end_offset"]
    expected = [each for each in before if each.offset < end]
    at_ms = source.at_ms["tides"]
    assert expected == [each for each in before if (each.timestamp_ms or 0) <= at_ms]
    assert source.read("yesterday", len(expected)) == expected
    assert report["segments"] == 3
    copied = [size for path, size in source.objects("yesterday-").items() if path.suffix == ".log"]
    assert len(copied) == 1 and copied[0] < 1 << 20

    clients = ClientFactory(source.servers)
    (receipt,) = clients.produce(CONFLUENT, "yesterday", [Message(b"after")])
    assert receipt.offset >= end
    clients.close()
    committed = source.read("tides", COUNT * 2 // 3 - 100, "read_committed")
    undecided = [each["first_offset"] for each in report["open_transactions"]]
    visible = [each for each in committed if each.offset < min([end, *undecided])]
    *read_committed, last = source.read("yesterday", len(visible) + 1, "read_committed")
    assert read_committed == visible and last.value == b"after"
    source.require_clean_bucket()

    result = tidelog("topic", "delete", "tides", bootstrap=source.servers)
    assert result.exit_code == 1
    assert "yesterday refers to its remote segments" in result.stderr
    tidelog_output("topic", "delete", "yesterday", bootstrap=source.servers)
    wait_until(lambda: not source.objects("yesterday-"))
    assert source.objects("tides-") == objects
    assert source.read("tides", COUNT) == before
    source.require_clean_bucket()


def test_an_expired_segment_is_kept_for_the_topic_that_refers_to_it(source: SourceCluster) -> None:
    before = source.fill("waves")
    end = source.restore("waves", "calm", "--execute")["log_end_offset"]
    source.topics.alter("waves", {"retention.ms": "1000", "local.retention.ms": "-2"})
    wait_until(lambda: source.topics.border("waves").log_start > end)
    expected = [each for each in before if each.offset < end]
    assert source.read("calm", len(expected)) == expected
    source.require_clean_bucket()
    tidelog_output("topic", "delete", "calm", bootstrap=source.servers)
    wait_until(lambda: not source.objects("waves-"))


@pytest.mark.parametrize("step", list(TravelStep))
def test_a_killed_restore_as_of_a_time_continues(source: SourceCluster, step: TravelStep) -> None:
    if not source.has("steps"):
        source.fill("steps")
    name = f"steps-{step.name.lower()}"
    killed = subprocess.run(
        (
            *(sys.executable, "-m", "tests.support.nodes.killed_restore", step.name),
            *("tier", "restore", "steps", "--at", str(source.at_ms["steps"]), "--as", name, "--execute"),
            *("-b", source.servers, *bucket_options(source.tier)),
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    report = source.restore("steps", name, "--execute")
    assert report["restored"]
    expected = source.records_before("steps", report["end_offset"])
    assert source.read(name, len(expected)) == expected
    source.require_clean_bucket()


def test_the_same_name_can_be_restored_again_after_its_deletion(source: SourceCluster) -> None:
    if not source.has("steps"):
        source.fill("steps")
    ends = []
    for _ in range(2):
        ends.append(source.restore("steps", "again", "--execute")["log_end_offset"])
        tidelog_output("topic", "delete", "again", bootstrap=source.servers)
        wait_until(lambda: not source.objects("again-"))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--at", "yesterday", "--as", "x"), "--at yesterday: allowed are milliseconds"),
        (("--at", "1000"), "give the topic, --at and --as"),
        (("--at", "1000", "--as", "a/b"), "--as a/b"),
    ],
)
def test_a_wrong_time_or_name_is_a_usage_failure(
    source: SourceCluster, arguments: tuple[str, ...], text: str
) -> None:
    line = tidelog_failure("tier", "restore", "tides", *arguments, *bucket_options(source.tier), code=2)
    assert text in line
