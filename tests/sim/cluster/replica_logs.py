"""The batches in the logs of all replicas, as they are on the simulated disks."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.sim.cluster.violation import Violation
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.cluster import SimulatedCluster, SimulatedNode

_BASE_AND_LENGTH = struct.Struct(">qi")
_EPOCH_AND_CRC = struct.Struct(">ibI")
_LAST_DELTA = struct.Struct(">i")
_PRODUCER = struct.Struct(">qh")
_HEADER_BYTES = 61


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """The parts of a batch header that two equal logs have in common."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    producer_epoch: int


def stored_batches(node: SimulatedNode, partition: TopicPartition) -> list[StoredBatch]:
    """Return the batches in the log of a replica."""
    disk = node.machine.state.disk
    folder = f"{node.log_folder}/{partition.topic}-{partition.partition}"
    if not disk.exists(folder):
        return []
    names = [name for name in disk.listdir(folder) if name.endswith(".log")]
    return [batch for name in names for batch in _batches(disk.read(f"{folder}/{name}"))]


def _batches(data: bytes) -> Iterator[StoredBatch]:
    position = 0
    while position + _HEADER_BYTES <= len(data):
        base_offset, length = _BASE_AND_LENGTH.unpack_from(data, position)
        leader_epoch, _, crc = _EPOCH_AND_CRC.unpack_from(data, position + 12)
        last_delta = _LAST_DELTA.unpack_from(data, position + 23)[0]
        producer_id, producer_epoch = _PRODUCER.unpack_from(data, position + 43)
        yield StoredBatch(
            base_offset, base_offset + last_delta, leader_epoch, crc, producer_id, producer_epoch
        )
        position += 12 + length


def equal_logs(cluster: SimulatedCluster, partition: TopicPartition) -> list[StoredBatch]:
    """Return the batches of a partition. Errors: Violation if two replicas differ."""
    logs = {node.node_id: stored_batches(node, partition) for node in cluster.nodes.values()}
    present = {node_id: log for node_id, log in logs.items() if log}
    if not present:
        return []
    first_id, first = next(iter(present.items()))
    for node_id, log in present.items():
        for one, other in zip(first, log, strict=False):
            if one != other:
                raise Violation(f"{partition} differs: node {first_id} has {one}, node {node_id} {other}")
        if len(log) != len(first):
            raise Violation(
                f"{partition}: node {first_id} has {len(first)} batches, node {node_id} {len(log)}"
            )
    return first


def check_log_matching(logs: Mapping[int, list[StoredBatch]], partition: TopicPartition) -> None:
    """Check that logs that agree on the epoch of an offset are equal up to it. Errors: Violation.

    `logs` has the batches of each replica by node.
    """
    (first_id, first), *others = logs.items()
    positions = {(batch.base_offset, batch.leader_epoch): index for index, batch in enumerate(first)}
    for node_id, log in others:
        for index in reversed(range(len(log))):
            position = positions.get((log[index].base_offset, log[index].leader_epoch))
            if position is not None:
                _check_equal(first[: position + 1], log[: index + 1], f"{partition} on {first_id}, {node_id}")
                break


def _check_equal(one: list[StoredBatch], other: list[StoredBatch], where: str) -> None:
    for first, second in zip(reversed(one), reversed(other), strict=False):
        if first != second:
            raise Violation(f"{where}: {first} and {second} are before a common batch")
