"""Apache Kafka's own command line tools against a Tidelog cluster: run by `make test-kafka-tools` alone.

The Makefile takes the jars from Maven into a cache folder and names it in TIDELOG_KAFKA_JARS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.tools import KafkaTools
from tidelog.local_cluster.cluster import LocalCluster

JARS = os.environ.get("TIDELOG_KAFKA_JARS")
# Not collected, and so not reported as skipped, by `make test`: it needs neither Java nor Maven.
collect_ignore_glob = [] if JARS else ["test_*.py"]
if not os.environ.get("TIDELOG_AIVEN_CLASSPATH"):
    collect_ignore_glob += ["test_aiven_plugin.py", "test_mixed_tiering.py", "test_spark_on_kafkas_tier.py"]

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes for all tests of the run."""
    made = LocalCluster.create(tmp_path_factory.mktemp("kafka-tools") / "cluster", 3, settings=SETTINGS)
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def tools(cluster: LocalCluster) -> KafkaTools:
    """Kafka's tools, talking to the cluster."""
    assert JARS is not None
    return KafkaTools(Path(JARS), cluster.bootstrap_servers)
