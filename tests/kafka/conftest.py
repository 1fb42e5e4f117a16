"""Apache Kafka's own command line tools with a Tidelog cluster, run only by `make test-kafka-tools`.

The Makefile downloads the jars with Maven into a cache folder, and passes it in TIDELOG_KAFKA_JARS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.secured_cluster import SecuredCluster
from tests.kafka.tools import KafkaTools
from tidelog.local_cluster.cluster import LocalCluster

JARS = os.environ.get("TIDELOG_KAFKA_JARS")
# `make test` does not collect these tests, and so does not report them as skipped.
collect_ignore_glob = [] if JARS else ["test_*.py"]
if not os.environ.get("TIDELOG_AIVEN_CLASSPATH"):
    collect_ignore_glob += [
        "test_aiven_plugin.py",
        "test_mixed_tiering.py",
        "test_restore_of_kafkas_bucket.py",
        "test_spark_on_kafka_tier.py",
    ]

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run three nodes for all tests of the run."""
    new_cluster = LocalCluster.create(
        tmp_path_factory.mktemp("kafka-tools") / "cluster", 3, settings=SETTINGS
    )
    try:
        new_cluster.start()
        yield new_cluster
    finally:
        new_cluster.remove()


@pytest.fixture(scope="session")
def tools(cluster: LocalCluster) -> KafkaTools:
    """Return Kafka's tools, connected to the cluster."""
    assert JARS is not None
    return KafkaTools(Path(JARS), cluster.bootstrap_servers)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Run nodes of both kinds with SASL_SSL between all of them, for all tests of the run."""
    secured_cluster = SecuredCluster(tmp_path_factory.mktemp("secured"))
    try:
        secured_cluster.start()
        yield secured_cluster
    finally:
        secured_cluster.cluster.end()
