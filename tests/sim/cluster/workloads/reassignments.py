"""Reassignments of partitions to random replicas, some of them cancelled, and preferred leader elections."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tests.sim.cluster.log_directories import require_exact_directories
from tests.sim.cluster.plan import Plan
from tests.sim.cluster.replication import is_fully_replicated, running_brokers
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.waiting import wait_until
from tests.sim.cluster.workloads.workload import AdminClient, Client, until_done
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.partitions import ElectionType
from tidelog.cluster.image import PartitionImage, TopicImage
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.testing.simulation.simulation import Simulation

PAUSE_S = 4.0
REPLICAS_MIN = 2
"""With acks=all and min.insync.replicas=2, one replica may lose what it has not synced."""
REPLICAS_MAX = 4


class Reassignments:
    """Moves the partitions of some topics."""

    def __init__(self, simulation: Simulation, plan: Plan, topics: tuple[str, ...]) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._plan = plan
        self._process = simulation.cluster.client("mover")
        self._topics = topics
        self.clients: list[Client] = []

    def start(self) -> None:
        """Start the client."""
        self.clients.append(AdminClient(self._simulation, self._process, self._perform))

    def check(self) -> None:
        """Move everything once more, and require that each partition has exactly its target replicas."""
        simulation, limit_s = self._simulation, self._plan.liveness_s
        targets = {partition: self._random_replicas() for partition in self._partitions()}
        simulation.run(self._process, self._move_all(targets))
        if not wait_until(simulation, lambda: not self._unfinished(targets), limit_s):
            raise Violation("; ".join(self._unfinished(targets)))
        if not wait_until(simulation, lambda: is_fully_replicated(self._cluster), limit_s):
            raise simulation.failure(f"not all replicas are in sync {limit_s:g} s after the reassignments")
        require_exact_directories(simulation, limit_s)

    async def _perform(self, admin: Admin) -> None:
        rng = self._process.rng
        await asyncio.sleep(rng.uniform(0, PAUSE_S))
        partitions = self._partitions()
        if not partitions:
            return
        partition = rng.choice(partitions)
        choice = rng.random()
        if choice < 0.15:
            await admin.elect_leaders(ElectionType.PREFERRED, [partition])
        else:
            target = None if choice < 0.3 else self._random_replicas()
            await admin.alter_partition_reassignments({partition: target})

    async def _move_all(self, targets: dict[TopicPartition, list[BrokerId]]) -> None:
        async with Admin(self._cluster.bootstrap_servers, environment=self._process.environment) as admin:

            async def move() -> None:
                for error in (await admin.alter_partition_reassignments(targets)).values():
                    if error is not None:
                        raise error

            await until_done(move)

    def _random_replicas(self) -> list[BrokerId]:
        rng, nodes = self._process.rng, list(self._cluster.nodes)
        return rng.sample(nodes, rng.randint(REPLICAS_MIN, min(REPLICAS_MAX, len(nodes))))

    def _partitions(self) -> list[TopicPartition]:
        topics = self._newest_topics()
        return [
            TopicPartition(name, number)
            for name in self._topics
            if name in topics
            for number in topics[name].partitions
        ]

    def _newest_topics(self) -> Mapping[str, TopicImage]:
        is_any_running = any(True for _ in running_brokers(self._cluster))
        return self._cluster.image.topics_by_name if is_any_running else {}

    def _unfinished(self, targets: dict[TopicPartition, list[BrokerId]]) -> list[str]:
        """Return a text for each partition with other replicas than its target."""
        topics = self._cluster.image.topics_by_name
        images = {each: topics[each.topic].partitions[each.partition] for each in targets}
        return [
            f"{partition} has {image}, and was moved to {targets[partition]}"
            for partition, image in images.items()
            if not _has_exactly(image, targets[partition])
        ]


def _has_exactly(image: PartitionImage, replicas: list[BrokerId]) -> bool:
    """Return whether a partition has these replicas in this order, and no reassignment."""
    is_moving = bool(image.adding_replicas or image.removing_replicas)
    return not is_moving and list(image.replicas) == replicas
