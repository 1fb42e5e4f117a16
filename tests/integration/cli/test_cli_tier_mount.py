"""`tidelog tier mount`: a topic of another cluster's bucket, which is read and never changed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import Received
from tests.support.nodes.killed_restore import MountStep
from tests.support.tier.bucket_settings import storage_config
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.testing.embedded import EmbeddedCluster

CONFLUENT = CLIENTS["confluent"]
POLICY_VIOLATION = 44


def read(cluster: EmbeddedCluster, topic: str, count: int) -> list[Received]:
    """Return records without the name of their topic."""
    clients = ClientFactory(cluster.bootstrap_servers)
    records = clients.consume(CONFLUENT, topic, count)
    clients.close()
    return [replace(each, topic="") for each in records[:count]]


class Clusters:
    """A cluster that writes a topic to its bucket, and one of three nodes that mounts this bucket."""

    def __init__(self, folder: Path) -> None:
        self.west_tier, self.own_tier = folder / "west", folder / "own"
        for tier in (self.west_tier, self.own_tier):
            tier.mkdir()
        self.west = EmbeddedCluster(tiered=True, config=storage_config(self.west_tier))
        self.options = {
            **storage_config(self.own_tier),
            "rsm.config.mounts.west.storage.root": str(self.west_tier),
        }
        self.own = EmbeddedCluster(3, tiered=True, config=self.options)
        self.west.start()
        self.own.start()
        self.topics = TieredTopics(self.west)
        self.topics.create("tides")
        self.write(4_000)

    def stop(self) -> None:
        self.west.stop()
        self.own.stop()

    def write(self, count: int) -> int:
        """Write records at the source; return the end of what is in its bucket."""
        clients = ClientFactory(self.west.bootstrap_servers)
        clients.produce(
            CONFLUENT, "tides", [Message(b"%d " % number + bytes(900)) for number in range(count)]
        )
        clients.close()
        return self.topics.wait_until_tiered("tides").highest_remote + 1

    def mount(self, *arguments: str) -> dict[str, Any]:
        """Run the command; return its report."""
        text = tidelog_output(
            *("tier", "mount", "west", "tides", *arguments, "--json"),
            *(part for key, value in self.options.items() for part in ("-C", f"{key}={value}")),
            bootstrap=self.own.bootstrap_servers,
        )
        document: dict[str, Any] = json.loads(text)
        return document

    def end(self, topic: str) -> int:
        """Return the end of a mounted topic."""
        return TieredTopics(self.own).offset(topic, -1)

    def objects(self) -> set[Path]:
        """Return the objects of the source."""
        return {path for path in self.west_tier.rglob("tides-*/**/*") if path.is_file()}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    running = Clusters(tmp_path_factory.mktemp("mounts"))
    yield running
    running.stop()


def test_a_mounted_topic_has_the_records_of_its_source_and_follows_it(clusters: Clusters) -> None:
    plan = clusters.mount("--as", "tides-west")
    assert not plan["mounted"]
    assert not clusters.own.run(lambda node: "tides-west" in node.services.image().topics_by_name)
    report = clusters.mount("--as", "tides-west", "--execute")
    (partition,) = report["partitions"]
    end: int = partition["end_offset"]
    assert report["mounted"] and end == clusters.topics.border("tides").highest_remote + 1
    assert read(clusters.own, "tides-west", end) == read(clusters.west, "tides", end)

    clients = ClientFactory(clusters.own.bootstrap_servers)
    consumer = clients.consumer(CONFLUENT)
    consumer.assign("tides-west", {0: end})
    new_end: int = clusters.write(3_000)
    received: list[Received] = []

    def has_received_all() -> bool:
        received.extend(consumer.poll())
        return len(received) >= new_end - end

    wait_until(has_received_all)
    clients.close()
    expected = read(clusters.west, "tides", new_end)
    assert [replace(each, topic="") for each in received] == expected[end:]
    assert clusters.end("tides-west") == new_end
    assert not [path for path in clusters.own_tier.rglob("*") if "tides" in path.name]


def test_the_replicas_of_a_mounted_topic_stay_in_sync_and_each_can_lead_it(clusters: Clusters) -> None:
    clusters.mount("--as", "elected", "--execute")
    end = clusters.end("elected")
    expected = read(clusters.west, "tides", end)

    def partition() -> Any:
        return clusters.own.run(lambda node: node.services.image().topics_by_name["elected"].partitions[0])

    def has_other_leader(former: int) -> bool:
        return partition().leader not in (former, -1)

    def are_all_in_sync() -> bool:
        return len(partition().isr) == 3

    for end_node in (clusters.own.stop_node, clusters.own.kill_node):
        former = partition().leader
        end_node(former)
        try:
            wait_until(partial(has_other_leader, former))
            assert read(clusters.own, "elected", end) == expected
        finally:
            clusters.own.start_node(former)
        wait_until(are_all_in_sync)


def test_writes_to_a_mounted_topic_are_rejected_as_a_policy_violation(clusters: Clusters) -> None:
    clusters.mount("--as", "read-only", "--execute")
    errors: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": clusters.own.bootstrap_servers, "log_level": 0})
    producer.produce("read-only", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    assert [error.code() for error in errors] == [POLICY_VIOLATION]
    name = confluent_kafka.TopicPartition("read-only", 0, 5)
    admin = AdminClient({"bootstrap.servers": clusters.own.bootstrap_servers})
    deletion = admin.delete_records([name])
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        deletion[name].result(TIMEOUT_S)
    assert caught.value.args[0].code() == POLICY_VIOLATION


def test_a_mounted_topic_names_its_source_and_is_unmounted_without_deleting_objects(
    clusters: Clusters,
) -> None:
    before = clusters.objects()
    clusters.mount("--as", "guest", "--execute")
    text = tidelog_output("config", "describe", "topic", "guest", bootstrap=clusters.own.bootstrap_servers)
    assert "tidelog.source" in text and "mount=west" in text
    output = tidelog_output("tier", "unmount", "guest", bootstrap=clusters.own.bootstrap_servers)
    assert "the objects of its source are kept" in output
    wait_until(lambda: not clusters.own.run(lambda node: "guest" in node.services.image().topics_by_name))
    assert clusters.objects() >= before
    clusters.mount("--as", "guest", "--execute")
    end = clusters.end("guest")
    assert read(clusters.own, "guest", end) == read(clusters.west, "tides", end)


@pytest.mark.parametrize("step", list(MountStep))
def test_a_killed_mount_continues_when_it_is_repeated(clusters: Clusters, step: MountStep) -> None:
    name = f"killed-{step.name.lower()}"
    killed = subprocess.run(
        (
            *(sys.executable, "-m", "tests.support.nodes.killed_restore", step.name),
            *("tier", "mount", "west", "tides", "--as", name, "--execute"),
            *("-b", clusters.own.bootstrap_servers),
            *(part for key, value in clusters.options.items() for part in ("-C", f"{key}={value}")),
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert clusters.mount("--as", name, "--execute")["mounted"]
    end = clusters.end(name)
    assert read(clusters.own, name, end) == read(clusters.west, "tides", end)


def test_fsck_follows_the_segments_of_a_mount(clusters: Clusters) -> None:
    clusters.mount("--as", "checked", "--execute")

    def findings(code: int) -> list[dict[str, Any]]:
        options = (part for key, value in clusters.options.items() for part in ("-C", f"{key}={value}"))
        result = tidelog(
            *("tier", "fsck", "checked", "--deep", "--json", *options),
            bootstrap=clusters.own.bootstrap_servers,
        )
        assert (result.exit_code, result.stderr) == (code, ""), result.output
        listed: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
        return listed

    assert findings(0) == []
    log_object = min(path for path in clusters.objects() if path.suffix == ".log")
    moved = log_object.rename(log_object.with_name("moved"))
    try:
        (finding,) = findings(1)
    finally:
        moved.rename(log_object)
    assert (finding["kind"], finding["topic"], finding["partition"]) == ("missing_object", "checked", 0)
    assert log_object.name in finding["place"]


def test_only_mounted_topics_are_unmounted(clusters: Clusters) -> None:
    servers = clusters.own.bootstrap_servers
    TieredTopics(clusters.own).create("ours")
    assert "which is not mounted" in tidelog_failure("tier", "unmount", "ours", bootstrap=servers)
    assert "no topic of this name" in tidelog_failure("tier", "unmount", "nothing", bootstrap=servers)
    line = tidelog_failure(
        *("tier", "mount", "east", "tides", "-C", "storage.root=/tmp"), code=2, bootstrap=servers
    )
    assert "there is no mount east" in line


def test_a_mounted_topic_starts_where_its_source_starts_after_retention(clusters: Clusters) -> None:
    clusters.mount("--as", "shrinking", "--execute")
    clusters.topics.alter("tides", {"retention.bytes": "2000000"})
    wait_until(lambda: clusters.topics.border("tides").log_start > 0)
    own = TieredTopics(clusters.own)
    wait_until(lambda: own.offset("shrinking", -2) == clusters.topics.border("tides").log_start)
    clients = ClientFactory(clusters.own.bootstrap_servers)
    start = own.offset("shrinking", -2)
    assert clients.consume(CONFLUENT, "shrinking", 1, {0: start})[0].offset == start
    clients.close()
