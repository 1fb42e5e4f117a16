"""Commands that show the state of a cluster: health, log-dirs, features, api-versions, topic describe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.waiting import wait_until
from tidelog.cli.output import size_text
from tidelog.testing.embedded import EmbeddedCluster

WIDTH_MAX = 80


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run three nodes with a tiered topic of three partitions, and 100 records in one of them."""
    with EmbeddedCluster(nodes=3, tiered=True) as running:
        running.create_topics({"tides": 3}, {"remote.storage.enable": "true"})
        lines = "high\n" * 100
        tidelog_output("produce", "tides", "-p", "1", stdin=lines, bootstrap=running.bootstrap_servers)
        yield running


def output(cluster: EmbeddedCluster, *arguments: str) -> str:
    text = tidelog_output(*arguments, bootstrap=cluster.bootstrap_servers)
    assert max(map(len, text.splitlines())) <= WIDTH_MAX or "/" in text, text
    return text


def document(cluster: EmbeddedCluster, *arguments: str) -> Any:
    return json.loads(tidelog(*arguments, "--json", bootstrap=cluster.bootstrap_servers).stdout)


def test_topic_describe_shows_sizes_lag_and_tier(cluster: EmbeddedCluster) -> None:
    text = output(cluster, "topic", "describe", "tides")
    assert "PARTITION  LEADER  EPOCH  REPLICAS  IN SYNC  START  END" in text
    assert text.splitlines()[-2].split() == ["1", "0", "0", "0", "100", "100"]
    (described,) = document(cluster, "topic", "describe", "tides")
    partition = described["partitions"][1]
    assert partition["tier_end_offset"] == partition["local_log_start_offset"] == 0
    assert sorted(log["broker"] for log in partition["logs"]) == [1, 2, 3]
    assert all(log["size_bytes"] > 100 for log in partition["logs"])


def test_log_dirs_shows_the_directories_of_each_broker(cluster: EmbeddedCluster) -> None:
    entries = document(cluster, "log-dirs")
    assert [(entry["broker"], entry["state"]) for entry in entries] == [(id_, "online") for id_ in (1, 2, 3)]
    assert all(entry["log_bytes"] > 0 and entry["total_bytes"] > 0 for entry in entries)
    assert [entry["broker"] for entry in document(cluster, "log-dirs", "--broker", "2")] == [2]


def test_api_versions_and_features_are_those_that_kafkas_clients_see(cluster: EmbeddedCluster) -> None:
    entries = document(cluster, "api-versions")
    produce = next(entry for entry in entries if entry["api"] == "Produce")
    assert (produce["key"], produce["brokers"]) == (0, [1, 2, 3]) and produce["highest"] >= 13
    features = {entry["feature"]: entry for entry in document(cluster, "features", "describe")["features"]}
    assert features["metadata.version"]["finalized"] > 0
    assert "metadata.version" in output(cluster, "features", "describe")
    output(cluster, "api-versions")


def test_feature_levels_are_changed_as_with_kafkas_tool(cluster: EmbeddedCluster) -> None:
    def level() -> int:
        features = document(cluster, "features", "describe")["features"]
        level: int = next(
            entry["finalized"] for entry in features if entry["feature"] == "transaction.version"
        )
        return level

    before = level()
    lower, higher = f"transaction.version={before - 1}", f"transaction.version={before}"
    text = output(cluster, "features", "downgrade", "--feature", lower, "--dry-run")
    assert text == f"transaction.version can be at level {before - 1}\n" and level() == before
    output(cluster, "features", "downgrade", "--feature", lower)
    assert level() == before - 1
    output(cluster, "features", "upgrade", "--feature", higher)
    assert level() == before
    error = tidelog_failure("features", "upgrade", bootstrap=cluster.bootstrap_servers, code=2)
    assert "give --feature NAME=LEVEL" in error


def test_health_names_missing_nodes_and_partitions_and_fails(cluster: EmbeddedCluster) -> None:
    text = output(cluster, "cluster", "health")
    assert text.endswith("\nhealthy\n") and "not in the tier   100 offsets of 3 tiered partitions" in text
    cluster.stop_node(3)
    servers = cluster.bootstrap_servers
    wait_until(lambda: "broker 3 is fenced" in tidelog("cluster", "health", bootstrap=servers).stdout)
    result = tidelog("cluster", "health", bootstrap=servers)
    assert result.exit_code == 1
    assert "problem: broker 3 is fenced" in result.stdout
    assert "under-replicated: __remote_log_metadata-0" in result.stdout
    assert document(cluster, "cluster", "health")["healthy"] is False
    cluster.start_node(3)
    wait_until(lambda: tidelog("cluster", "health", bootstrap=servers).exit_code == 0)


def test_confluents_admin_client_sees_the_same_brokers(cluster: EmbeddedCluster) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    nodes = document(cluster, "cluster", "health")["nodes"]
    assert {node["broker"] for node in nodes} == set(admin.list_topics(timeout=10).brokers)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "0.977 KiB"), (1_500_000, "1.43 MiB"), (None, None), (-1, None)],
)
def test_sizes_have_three_digits(size: int | None, text: str | None) -> None:
    assert size_text(size) == text
