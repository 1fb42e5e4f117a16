"""`tidelog tier restore`: topics of a lost cluster, restored from its bucket in an empty cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import Received
from tests.support.nodes.killed_restore import RestoreStep
from tests.support.nodes.topic_admin import TopicAdmin
from tests.support.tier.bucket_settings import bucket_options, storage_config
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.testing.embedded import EmbeddedCluster

CONFLUENT = CLIENTS["confluent"]


class LostCluster:
    """A cluster that wrote two topics to `tier` and was then lost; the records as clients read them."""

    def __init__(self, tier: Path) -> None:
        self.tier = tier
        self.records: dict[str, list[Received]] = {}
        self.tiered_end: dict[str, int] = {}
        self.topic_ids: dict[str, str] = {}
        with EmbeddedCluster(tiered=True, config=storage_config(tier)) as cluster:
            tiered = TieredTopics(cluster)
            clients = ClientFactory(cluster.bootstrap_servers)
            tiered.create("tides")
            messages = [Message(b"%d " % number + bytes(900), key=b"k%d" % number) for number in range(4000)]
            clients.produce(CONFLUENT, "tides", messages)
            self._lose(tiered, clients, "tides", len(messages))
            tiered.create("ledger")
            ends = write_transactions(cluster.bootstrap_servers, "ledger")
            self._lose(tiered, clients, "ledger", ends)
            clients.close()

    def _lose(self, tiered: TieredTopics, clients: ClientFactory, topic: str, count: int) -> None:
        border = tiered.wait_until_tiered(topic)
        self.records[topic] = clients.consume(CONFLUENT, topic, count)
        self.tiered_end[topic] = border.highest_remote + 1

    def tiered_records(self, topic: str) -> list[Received]:
        """Return the records that were in remote storage when the cluster was lost."""
        return [each for each in self.records[topic] if each.offset < self.tiered_end[topic]]


def write_transactions(servers: str, topic: str) -> int:
    """Write a committed, an aborted and an idle producer's records; return the number of records."""
    count = 0
    for number, commits in enumerate((True, False, True)):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": f"t{number}", "log_level": 0}
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for _ in range(1500):
            producer.produce(topic, b"%d " % number + bytes(900))
            count += 1
        if commits:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
    return count


@pytest.fixture(scope="module")
def lost_cluster(tmp_path_factory: pytest.TempPathFactory) -> LostCluster:
    tier = tmp_path_factory.mktemp("tier")
    return LostCluster(tier)


@pytest.fixture(scope="module")
def cluster(lost_cluster: LostCluster) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, tiered=True, config=storage_config(lost_cluster.tier)) as running:
        yield running


def restore(cluster: EmbeddedCluster, lost_cluster: LostCluster, *arguments: str) -> list[dict[str, Any]]:
    text = tidelog_output(
        "tier",
        "restore",
        *arguments,
        "--json",
        *bucket_options(lost_cluster.tier),
        bootstrap=cluster.bootstrap_servers,
    )
    documents: list[dict[str, Any]] = json.loads(text)
    return documents


def test_a_dry_run_reports_the_topics_and_changes_nothing(
    cluster: EmbeddedCluster, lost_cluster: LostCluster
) -> None:
    ledger, tides = restore(cluster, lost_cluster, "--all")
    assert (ledger["topic"], tides["topic"]) == ("ledger", "tides")
    assert not tides["restored"] and tides["obstacles"] == []
    (partition,) = tides["partitions"]
    assert (partition["start_offset"], partition["end_offset"]) == (0, lost_cluster.tiered_end["tides"])
    assert not cluster.run(lambda node: "tides" in node.services.image().topics_by_name)


def test_a_restored_topic_has_its_id_and_every_tiered_record_and_accepts_new_ones(
    cluster: EmbeddedCluster, lost_cluster: LostCluster
) -> None:
    (document,) = restore(cluster, lost_cluster, "tides", "--execute")
    assert document["restored"]
    (partition,) = document["partitions"]
    end = lost_cluster.tiered_end["tides"]
    assert (partition["log_start_offset"], partition["log_end_offset"]) == (0, end)
    clients = ClientFactory(cluster.bootstrap_servers)
    expected = lost_cluster.tiered_records("tides")
    assert len(expected) == end
    assert clients.consume(CONFLUENT, "tides", end) == expected
    (receipt,) = clients.produce(CONFLUENT, "tides", [Message(b"after")])
    assert receipt.offset == end
    assert clients.consume(CONFLUENT, "tides", 1, {0: end})[0].value == b"after"
    clients.close()


def test_followers_of_a_restored_topic_join_the_isr_at_its_end(
    cluster: EmbeddedCluster, lost_cluster: LostCluster
) -> None:
    restore(cluster, lost_cluster, "tides", "--execute")

    def is_whole() -> bool:
        partition = cluster.run(lambda node: node.services.image().topics_by_name["tides"].partitions[0])
        return len(partition.isr) == len(partition.replicas) == 3

    wait_until(is_whole)
    tiered = TieredTopics(cluster)
    for node_id in cluster.nodes:
        border = tiered.border("tides", node_id=node_id)
        assert border.log_start == 0
        assert border.local_start == lost_cluster.tiered_end["tides"]


def test_committed_and_aborted_transactions_of_a_restored_topic_are_read_as_before(
    cluster: EmbeddedCluster, lost_cluster: LostCluster
) -> None:
    (document,) = restore(cluster, lost_cluster, "ledger", "--execute")
    clients = ClientFactory(cluster.bootstrap_servers)
    tiered = lost_cluster.tiered_records("ledger")
    read = clients.consume(CONFLUENT, "ledger", len(tiered), isolation="read_uncommitted")
    assert read == tiered
    (partition,) = document["partitions"]
    # The marker of the last transaction was in the active segment.
    (lost_end,) = partition["open_transactions"]
    committed = [
        each
        for each in tiered
        if each.offset < lost_end["first_offset"] and not (each.value or b"").startswith(b"1 ")
    ]
    clients.produce(CONFLUENT, "ledger", [Message(b"after")])
    *read_committed, last = clients.consume(
        CONFLUENT, "ledger", len(committed) + 1, isolation="read_committed"
    )
    assert read_committed == committed
    assert last.value == b"after"
    clients.close()


def test_a_repeated_restore_changes_nothing(cluster: EmbeddedCluster, lost_cluster: LostCluster) -> None:
    restore(cluster, lost_cluster, "tides", "--execute")

    def metadata_ends() -> list[int]:
        return cluster.run(
            lambda node: [
                partition.log.log_end_offset
                for name, partition in sorted(node.services.replicas.partitions.items())
                if name.topic == "__remote_log_metadata"
            ]
        )

    before = metadata_ends()
    (document,) = restore(cluster, lost_cluster, "tides", "--execute")
    assert document["restored"]
    assert metadata_ends() == before


def test_a_topic_of_the_same_name_with_another_id_is_not_replaced(lost_cluster: LostCluster) -> None:
    with EmbeddedCluster(tiered=True, config=storage_config(lost_cluster.tier)) as other:
        TopicAdmin(other.bootstrap_servers).create("tides", {})
        result = tidelog(
            "tier",
            "restore",
            "tides",
            "--execute",
            *bucket_options(lost_cluster.tier),
            bootstrap=other.bootstrap_servers,
        )
        assert result.exit_code == 1
        assert "the cluster has a topic of this name with id" in result.stderr


@pytest.mark.parametrize("step", list(RestoreStep))
def test_a_restore_that_is_killed_continues_when_it_is_repeated(
    lost_cluster: LostCluster, step: RestoreStep
) -> None:
    with EmbeddedCluster(tiered=True, config=storage_config(lost_cluster.tier)) as other:
        killed = subprocess.run(
            (
                *(sys.executable, "-m", "tests.support.nodes.killed_restore", step.name),
                *("tier", "restore", "ledger", "--execute", "-b", other.bootstrap_servers),
                *bucket_options(lost_cluster.tier),
            ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        (document,) = restore(other, lost_cluster, "ledger", "--execute")
        assert document["restored"]
        clients = ClientFactory(other.bootstrap_servers)
        tiered = lost_cluster.tiered_records("ledger")
        assert clients.consume(CONFLUENT, "ledger", len(tiered)) == tiered
        (receipt,) = clients.produce(CONFLUENT, "ledger", [Message(b"after")])
        read = clients.consume(CONFLUENT, "ledger", 1, {0: receipt.offset}, isolation="read_committed")
        assert read[0].value == b"after"
        clients.close()


def test_an_offline_report_needs_no_cluster(lost_cluster: LostCluster) -> None:
    text = tidelog_output("tier", "restore", "--all", "--offline", *bucket_options(lost_cluster.tier))
    assert "dry run: 2 of 2 topics can be restored" in text


def test_a_topic_that_is_not_in_the_bucket_is_named(lost_cluster: LostCluster) -> None:
    line = tidelog_failure(
        "tier", "restore", "nothing", "--offline", *bucket_options(lost_cluster.tier), code=2
    )
    assert "the bucket has no segments of nothing" in line
