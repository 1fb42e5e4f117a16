"""Rolling restarts: the nodes are stopped and started one after the other, when all replicas are in sync."""

from __future__ import annotations

import asyncio

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.replication import is_fully_replicated
from tests.sim.cluster.workloads.workload import AdminClient, Client
from tidelog.clients.admin.admin import Admin
from tidelog.testing.simulation.cluster import SimulatedNode
from tidelog.testing.simulation.simulation import Simulation

WAIT_S_MAX = 20.0
POLL_S = 0.1
DOWN_S = 2.0


class RollingRestarts:
    """Restarts each node in turn, again and again. Other faults may happen meanwhile."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._process = simulation.cluster.client("operator")
        self.restarts = 0
        self.clients: list[Client] = []

    def start(self) -> None:
        """Start the operator."""
        self.clients.append(AdminClient(self._simulation, self._process, self._restart_all))

    def check(self) -> None:
        """Do nothing: the other workloads check what clients notice."""

    async def _restart_all(self, admin: Admin) -> None:
        for node in self._cluster.nodes.values():
            if self.clients[0].is_stopped:
                return
            await self._wait_until_in_sync()
            await self._restart(node)

    async def _restart(self, node: SimulatedNode) -> None:
        if node.broker is None or node.is_stopping or not node.is_running:
            return
        node.stop()
        waited_s = 0.0
        while node.is_running and waited_s < WAIT_S_MAX:
            waited_s += POLL_S
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(self._process.rng.uniform(0, DOWN_S))
        if not node.is_running:
            node.start()
            self.restarts += 1

    async def _wait_until_in_sync(self) -> None:
        waited_s = 0.0
        while not is_fully_replicated(self._cluster) and waited_s < WAIT_S_MAX:
            waited_s += POLL_S
            await asyncio.sleep(POLL_S)
