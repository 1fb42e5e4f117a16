"""One process of Apache Kafka that is broker and controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka.kafka_node import MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.reference_software.kafka_programs import Engine
from tidelog.local_cluster.ports import free_ports

ALONE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""The settings of a cluster of one broker."""


class OneKafka(NamedTuple):
    """The running cluster and its only node."""

    cluster: MixedCluster
    node: Node


@contextmanager
def run_one_kafka(root: Path) -> Iterator[OneKafka]:
    """Run the process; its files are in `root`."""
    cluster = MixedCluster(root, settings=ALONE)
    node = cluster.add(1, Engine.KAFKA, "broker,controller")
    (port,) = free_ports(1)
    controller = f"127.0.0.1:{port}"
    node.settings["listeners"] = f"PLAINTEXT://{node.address},CONTROLLER://{controller}"
    node.settings["controller.quorum.voters"] = f"1@{controller}"
    try:
        cluster.format(node)
        cluster.start(node)
        MixedClients(cluster).wait_for_brokers(1)
        yield OneKafka(cluster, node)
    finally:
        cluster.end()
