"""What must hold at every moment, checked during a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from tests.sim.cluster.replica_logs import check_log_matching, stored_batches
from tests.sim.cluster.replication import partitions_of, running_brokers
from tests.sim.cluster.violation import Violation
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.cluster import SimulatedCluster

PartitionEpoch = tuple[TopicPartition, int, UUID]
"""A leader epoch of a partition. A topic that was created again has another id."""
LOG_CHECK_INTERVAL: Final = 20
"""The logs are compared in every 20th check, because all of them are read."""


class Invariants:
    """One leader per epoch, of partitions and of the quorum; the high watermark of one never decreases.

    The logs of `topics`, which must not lose their beginning, match up to the last common epoch and offset.
    """

    def __init__(self, cluster: SimulatedCluster, topics: Iterable[str]) -> None:
        self._cluster = cluster
        self._topics = tuple(topics)
        self._checks = 0
        self._leaders: dict[PartitionEpoch, int] = {}
        self._high_watermarks: dict[PartitionEpoch, int] = {}
        self._controllers: dict[int, int] = {}

    def check(self) -> None:
        """Look at all running nodes. Errors: Violation."""
        self._checks += 1
        if self._checks % LOG_CHECK_INTERVAL == 0:
            self._check_logs()
        for node in running_brokers(self._cluster):
            self._check_controller(node.node_id, node.broker.raft)
            for partition in partitions_of(node):
                if partition.leader is None:
                    continue
                key = partition.topic_partition, partition.leader_epoch, partition.topic_id
                leader = self._leaders.setdefault(key, node.node_id)
                if leader != node.node_id:
                    raise Violation(f"{key[0]} has the leaders {leader} and {node.node_id} in epoch {key[1]}")
                high_watermark = partition.log.high_watermark
                earlier = self._high_watermarks.get(key, 0)
                if high_watermark < earlier:
                    raise Violation(
                        f"the high watermark of {key[0]} on its leader {leader} in epoch {key[1]} decreased "
                        f"from {earlier} to {high_watermark}"
                    )
                self._high_watermarks[key] = high_watermark

    def _check_logs(self) -> None:
        nodes = list(running_brokers(self._cluster))
        partitions = {
            partition.topic_partition
            for node in nodes
            for partition in partitions_of(node)
            if partition.topic_partition.topic in self._topics
        }
        for topic_partition in sorted(partitions):
            logs = {node.node_id: stored_batches(node, topic_partition) for node in nodes}
            check_log_matching(logs, topic_partition)

    def _check_controller(self, node_id: int, raft: object) -> None:
        machine = raft.machine  # type: ignore[attr-defined]
        if machine.leader_id == node_id:
            leader = self._controllers.setdefault(machine.epoch, node_id)
            if leader != node_id:
                raise Violation(f"the quorum has the leaders {leader} and {node_id} in epoch {machine.epoch}")
