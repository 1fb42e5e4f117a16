"""Removal and addition of controllers in a dynamic quorum (KIP-853)."""

from __future__ import annotations

import asyncio

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.workloads.workload import RETRY_S, AdminClient, Client
from tidelog.clients.admin.admin import Admin, VoterEndpoint
from tidelog.local_cluster.layout import CONTROLLER_LISTENER
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.testing.simulation.cluster import CONTROLLER_PORT, SimulatedNode
from tidelog.testing.simulation.simulation import Simulation

PAUSE_S = 4.0
VOTERS_MIN = 2


class VoterChanges:
    """Changes one voter at a time; at the end, all nodes are voters again."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._plan = plan
        self._process = simulation.cluster.client("quorum-operator")
        self.clients: list[Client] = []

    def start(self) -> None:
        """Start the operator."""
        self.clients.append(AdminClient(self._simulation, self._process, self._perform))

    def check(self) -> None:
        """Add the missing voters, and require that the quorum has all nodes."""
        self._simulation.run(self._process, self._add_all(), self._plan.liveness_s)

    async def _perform(self, admin: Admin) -> None:
        rng = self._process.rng
        await asyncio.sleep(rng.uniform(0, PAUSE_S))
        voters = await self._voters(admin)
        node = rng.choice(list(self._cluster.nodes.values()))
        if node.node_id not in voters:
            await self._add(admin, node)
        elif len(voters) > VOTERS_MIN:
            await admin.remove_raft_voter(node.node_id, node.directory_id)

    async def _voters(self, admin: Admin) -> set[int]:
        quorum = await admin.describe_metadata_quorum()
        ids = {each.replica_id for each in quorum.voters}
        if unknown := ids - self._cluster.nodes.keys():
            raise Violation(f"the quorum has the unknown voters {unknown}")
        return ids

    async def _add(self, admin: Admin, node: SimulatedNode) -> None:
        endpoint = VoterEndpoint(CONTROLLER_LISTENER, node.machine.state.address, CONTROLLER_PORT)
        await admin.add_raft_voter(node.node_id, node.directory_id, [endpoint])

    async def _add_all(self) -> None:
        while True:
            try:
                async with Admin(
                    self._cluster.bootstrap_servers, environment=self._process.environment
                ) as admin:
                    voters = await self._voters(admin)
                    missing = [each for each in self._cluster.nodes.values() if each.node_id not in voters]
                    if not missing:
                        return
                    await self._add(admin, missing[0])
            except KafkaError as error:
                if error.code is ErrorCode.INVALID_REQUEST:
                    raise
                await asyncio.sleep(RETRY_S)
