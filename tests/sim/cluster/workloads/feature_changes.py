"""Upgrades and downgrades: the feature levels of a cluster begin low, and change while clients work.

A level decreases only if a client has requested it, and metadata.version only between levels with the same
records. At the end all nodes have the newest levels.
"""

from __future__ import annotations

import asyncio

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.replication import running_brokers
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.waiting import wait_until
from tests.sim.cluster.workloads.settings import LOWEST_METADATA_VERSION
from tests.sim.cluster.workloads.workload import AdminClient, Client, until_done
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.features import UpgradeType
from tidelog.cluster.features import BOOTSTRAP_LEVELS, METADATA_VERSION
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.testing.simulation.scheduler import MS
from tidelog.testing.simulation.simulation import Simulation

PAUSE_S = 4.0
DOWNGRADE_SHARE = 0.3
CHECK_EVERY_NS = 100 * MS
LEVELS_WITH_CHANGED_RECORDS = (23, 30)
"""Of metadata.version, above LOWEST_METADATA_VERSION. Source: MetadataVersion of Apache Kafka 4.3."""


class FeatureChanges:
    """Raises or lowers one level at a time."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._plan = plan
        self._process = simulation.cluster.client("upgrader")
        self._levels: dict[str, int] = {}
        self._lowest_requested: dict[str, int] = {}
        """The lowest level that a downgrade has requested, until a later upgrade is visible."""
        self._raised: dict[str, int] = {}
        """The levels of acknowledged upgrades that are not visible yet."""
        self._uncertain: set[str] = set()
        """The features with a downgrade that has no response: it may be applied at any time."""
        self._newest_offset = -1
        self.clients: list[Client] = []

    def start(self) -> None:
        """Start the operator."""
        self.clients.append(AdminClient(self._simulation, self._process, self._perform))
        self._check_levels()

    def check(self) -> None:
        """Raise all levels, and require that each node has them."""
        simulation = self._simulation
        simulation.run(self._process, self._raise_all())
        if not wait_until(simulation, lambda: not self._difference(), self._plan.liveness_s):
            raise Violation(self._difference())

    async def _perform(self, admin: Admin) -> None:
        rng = self._process.rng
        await asyncio.sleep(rng.uniform(0, PAUSE_S))
        levels = (await admin.describe_features()).finalized
        name = rng.choice(sorted(BOOTSTRAP_LEVELS))
        level = levels.get(name, 0)
        lowest = LOWEST_METADATA_VERSION if name == METADATA_VERSION else 0
        if level > lowest and rng.random() < DOWNGRADE_SHARE:
            await self._lower(admin, name, rng.randint(lowest, level - 1))
        elif level < BOOTSTRAP_LEVELS[name]:
            higher = rng.randint(level + 1, BOOTSTRAP_LEVELS[name])
            await admin.update_features({name: higher})
            if name not in self._uncertain:
                self._raised[name] = higher

    async def _lower(self, admin: Admin, name: str, level: int) -> None:
        self._lowest_requested[name] = min(level, self._lowest_requested.get(name, level))
        self._raised.pop(name, None)
        try:
            await admin.update_features({name: level}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        except KafkaError as error:
            if error.code is not ErrorCode.INVALID_UPDATE_VERSION:
                self._uncertain.add(name)
            raise
        self._simulation.trace.note("upgrader", f"the level of {name} is lowered to {level}")

    async def _raise_all(self) -> None:
        async with Admin(self._cluster.bootstrap_servers, environment=self._process.environment) as admin:

            async def raise_levels() -> None:
                levels = (await admin.describe_features()).finalized
                higher = {
                    name: level for name, level in BOOTSTRAP_LEVELS.items() if levels.get(name, 0) < level
                }
                if higher:
                    await admin.update_features(higher)

            await until_done(raise_levels)

    def _check_levels(self) -> None:
        """Require that levels decrease only as requested, again and again. Errors: Violation."""
        if any(True for _ in running_brokers(self._cluster)):
            image = self._cluster.image
            if image.offset >= self._newest_offset:
                self._newest_offset = image.offset
                for name, earlier in self._levels.items():
                    self._check_level(name, earlier, image.features.get(name, 0))
                self._levels = dict(image.features)
                for name in [
                    name for name, level in self._raised.items() if self._levels.get(name, 0) >= level
                ]:
                    # From now on, a decrease of this level is the loss of an upgrade.
                    del self._raised[name]
                    self._lowest_requested.pop(name, None)
        self._simulation.scheduler.after(CHECK_EVERY_NS, self._check_levels)

    def _check_level(self, name: str, earlier: int, level: int) -> None:
        if level >= earlier:
            return
        is_requested = level >= self._lowest_requested.get(name, earlier)
        loses_records = name == METADATA_VERSION and any(
            level < changed <= earlier for changed in LEVELS_WITH_CHANGED_RECORDS
        )
        if not is_requested or loses_records:
            raise Violation(f"{name} decreased from {earlier} to {level}")

    def _difference(self) -> str:
        """Return the first node with other levels; empty if there is none."""
        for node in running_brokers(self._cluster):
            levels = node.broker.services.image().features if node.broker is not None else {}
            if dict(levels) != dict(BOOTSTRAP_LEVELS):
                return f"node {node.node_id} has the levels {dict(levels)}"
        return ""
