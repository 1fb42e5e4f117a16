"""The state of the replicas of a simulated cluster, as its nodes know it."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.broker.partitions.partition import Partition
from tidelog.testing.simulation.cluster import SimulatedCluster, SimulatedNode


def running_brokers(cluster: SimulatedCluster) -> Iterator[SimulatedNode]:
    """Yield the nodes whose broker has started."""
    for node in cluster.nodes.values():
        if node.is_running and node.broker is not None:
            yield node


def partitions_of(node: SimulatedNode) -> Iterator[Partition]:
    """Yield the partitions with a replica on a node."""
    assert node.broker is not None
    services = node.broker.services
    for topic in services.image().topics_by_name.values():
        yield from services.replicas.partitions_of_topic(topic.name)


def is_fully_replicated(cluster: SimulatedCluster) -> bool:
    """Return whether all nodes run, and all replicas are in sync in the newest metadata of a node."""
    brokers = list(running_brokers(cluster))
    if len(brokers) < len(cluster.nodes):
        return False
    images = [node.broker.services.image() for node in brokers if node.broker is not None]
    image = max(images, key=lambda each: each.offset)
    return all(
        len(partition.isr) == len(partition.replicas)
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
    )
