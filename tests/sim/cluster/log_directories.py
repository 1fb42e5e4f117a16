"""The partition directories on the simulated disks, compared with the metadata of the cluster."""

from __future__ import annotations

import re

from tests.sim.cluster.violation import Violation
from tests.sim.cluster.waiting import wait_until
from tidelog.storage.disk.checkpoints import PartitionMetadataFile
from tidelog.testing.simulation.cluster import SimulatedNode
from tidelog.testing.simulation.simulation import Simulation

_DIRECTORY = re.compile(r"(?P<topic>.+?)-(?P<number>[0-9]+)(\.[0-9a-f]+-(?P<state>delete|stray|future))?")
_METADATA_TOPIC = "__cluster_metadata"


def require_exact_directories(simulation: Simulation, limit_s: float) -> None:
    """Wait until each node has the directories of its replicas, and no others. Errors: Violation."""
    if not wait_until(simulation, lambda: not _differences(simulation), limit_s):
        raise Violation("; ".join(_differences(simulation)))


def _differences(simulation: Simulation) -> list[str]:
    """Return a text for each directory that is missing, or that no replica uses."""
    differences = []
    cluster = simulation.cluster
    for node in cluster.nodes.values():
        expected = {
            f"{topic.name}-{number}": topic.id
            for topic in cluster.image.topics_by_name.values()
            for number, partition in topic.partitions.items()
            if node.node_id in partition.replicas
        }
        present = _directories(node)
        for name in sorted(expected.keys() | present.keys()):
            wanted, actual = expected.get(name), present.get(name)
            if wanted != actual:
                differences.append(f"node {node.node_id}: {name} has topic id {actual}, not {wanted}")
    return differences


def _directories(node: SimulatedNode) -> dict[str, object]:
    """Return the topic id of each directory of a partition; those being deleted are included."""
    disk = node.machine.state.disk
    topic_ids: dict[str, object] = {}
    for name in disk.listdir(node.log_folder):
        match = _DIRECTORY.fullmatch(name)
        if match is None or match["topic"] == _METADATA_TOPIC or match["state"] == "stray":
            continue  # as in Apache Kafka, what a node finds at start and does not own is kept
        file = PartitionMetadataFile(disk, f"{node.log_folder}/{name}")
        topic_ids[name] = file.read() if file.exists() else None
    return topic_ids
