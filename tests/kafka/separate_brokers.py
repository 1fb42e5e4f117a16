"""Two clusters for comparisons: a broker of each implementation, each with a controller of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

import pytest

from tests.kafka.kafka_node import MixedCluster, Node
from tests.kafka.mixed_clients import MixedClients
from tests.reference_software.kafka_programs import Engine
from tests.support.network.raw_client import RawClient
from tidelog.protocol.batch import read_header
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse

_CONTROLLER = 100
_BROKER = 1
_TIMEOUT_S = 60


class SeparateBroker(NamedTuple):
    """The only broker of a running cluster, with a connection to it."""

    cluster: MixedCluster
    node: Node
    clients: MixedClients
    client: RawClient

    def topic_ids(self) -> dict[str, UUID]:
        """Return the ids of all topics by name."""
        metadata = self.client.send_request(MetadataRequest(topics=None), 12, MetadataResponse)
        return {topic.name or "": topic.topic_id for topic in metadata.topics}

    def log_of(self, partition: str) -> bytes:
        """Return the batches of a partition, with the zeros that `log_bytes` removes from the end."""
        log = self.node.log_bytes(partition)
        padded, position = log + bytes(4096), 0
        while position < len(log):
            position += read_header(padded, position).size_bytes
        return padded[:position]


@contextmanager
def run_separate_brokers(
    folders: pytest.TempPathFactory, settings: Mapping[str, str], topics: Mapping[str, int]
) -> Iterator[tuple[SeparateBroker, SeparateBroker]]:
    """Run a broker of Tidelog and one of Apache Kafka; `topics` are names with numbers of partitions."""
    clusters: list[MixedCluster] = []
    try:
        brokers = []
        for engine in (Engine.TIDELOG, Engine.KAFKA):
            clusters.append(MixedCluster(folders.mktemp(engine.name)))
            brokers.append(start_separate_broker(clusters[-1], engine, settings, topics))
        yield brokers[0], brokers[1]
    finally:
        for cluster in clusters:
            cluster.end()


def start_separate_broker(
    cluster: MixedCluster, engine: Engine, settings: Mapping[str, str], topics: Mapping[str, int]
) -> SeparateBroker:
    """Start a controller of Apache Kafka and one broker, and create topics; `cluster` is empty."""
    cluster.add(_CONTROLLER, Engine.KAFKA, "controller", dict(settings))
    node = cluster.add(_BROKER, engine, "broker", dict(settings))
    for each in cluster.nodes.values():
        cluster.format(each)
    cluster.start(*cluster.nodes.values())
    clients = MixedClients(cluster)
    clients.wait_for_brokers(_BROKER)
    for name, count in topics.items():
        clients.create_topic(name, [[_BROKER]] * count)
    host, _, port = node.address.partition(":")
    return SeparateBroker(cluster, node, clients, RawClient(host, int(port), _TIMEOUT_S))
