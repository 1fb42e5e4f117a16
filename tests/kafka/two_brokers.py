"""A cluster of one broker of each implementation, with a controller of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka.kafka_node import MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.reference_software.kafka_programs import Engine

OURS: Final = 1
KAFKAS: Final = 3
_CONTROLLER: Final = 100

ONE_COORDINATOR: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""The settings with which one broker coordinates all groups, and one all transactions."""


class TwoBrokers(NamedTuple):
    """The running cluster: `ours` is the broker of Tidelog, `kafkas` that of Apache Kafka."""

    cluster: MixedCluster
    clients: MixedClients
    ours: Node
    kafkas: Node


@contextmanager
def run_two_brokers(root: Path, settings: Mapping[str, str]) -> Iterator[TwoBrokers]:
    """Run the cluster; every node has `settings`."""
    cluster = MixedCluster(root)
    cluster.add(_CONTROLLER, Engine.KAFKA, "controller", dict(settings))
    ours = cluster.add(OURS, Engine.TIDELOG, "broker", dict(settings))
    kafkas = cluster.add(KAFKAS, Engine.KAFKA, "broker", dict(settings))
    clients = MixedClients(cluster)
    try:
        for node in cluster.nodes.values():
            cluster.format(node)
        cluster.start(*cluster.nodes.values())
        clients.wait_for_brokers(OURS, KAFKAS)
        yield TwoBrokers(cluster, clients, ours, kafkas)
    finally:
        cluster.end()
