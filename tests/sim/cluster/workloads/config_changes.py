"""Changes of topic configs and dynamic broker configs, of all brokers and of one.

Each new value is different, so that the value at the end shows which change was the last one. A change
without a response may have been applied, or may be applied later.
"""

from __future__ import annotations

import asyncio
from itertools import count

from tests.sim.cluster.plan import FaultRates, Plan
from tests.sim.cluster.replication import partitions_of, running_brokers
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.workloads.workload import AdminClient, Client, until_done
from tidelog.clients.admin.admin import Admin, AlterOperation, ConfigChange, ConfigResource, ResourceType
from tidelog.protocol.errors import KafkaError
from tidelog.testing.simulation.simulation import Simulation

PAUSE_S = 2.0
SIZE_MIN = 1_000_000
TOPIC_KEY = "max.message.bytes"
BROKER_KEY = "message.max.bytes"
TOPIC_CHOICES = {
    "compression.type": ("producer", "lz4", "zstd", "gzip", "uncompressed"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "min.insync.replicas": ("2",),
    "segment.index.bytes": ("1024", "10485760"),
    "segment.ms": ("1000", "604800000"),
}
BROKER_CHOICES = {
    "background.threads": ("5", "10"),
    "num.io.threads": ("4", "8", "16"),
    "num.network.threads": ("2", "3", "6"),
    "num.recovery.threads.per.data.dir": ("1", "4"),
    "num.replica.fetchers": ("1", "2", "4"),
}


class ConfigChanges:
    """Changes the configs of a topic and of all brokers."""

    def __init__(self, simulation: Simulation, plan: Plan, topic: str) -> None:
        self._simulation = simulation
        self._plan = plan
        self._servers = simulation.cluster.bootstrap_servers
        self._process = simulation.cluster.client("configurer")
        self._numbers = count(SIZE_MIN)
        self._topic = ConfigResource(ResourceType.TOPIC, topic)
        brokers = ("", *map(str, simulation.cluster.nodes))
        self._brokers = [ConfigResource(ResourceType.BROKER, name) for name in brokers]
        self._possible: dict[ConfigResource, set[str]] = {}
        """The values of the numbered key of each resource, of which one must be found in the end."""
        self._changed: set[ConfigResource] = set()
        """The resources of which at least one change has been acknowledged."""
        self.clients: list[Client] = []

    def start(self) -> None:
        """Start the client."""
        self.clients.append(AdminClient(self._simulation, self._process, self._perform))

    def check(self) -> None:
        """Require that the last change of each resource is known everywhere, before and after a new one."""
        simulation = self._simulation
        expected = {resource: self._possible[resource] for resource in sorted(self._changed)}
        simulation.run(self._process, self._require(expected))
        final = {resource: str(next(self._numbers)) for resource in (self._topic, *self._brokers[1:])}
        simulation.run(self._process, self._set_all(final))
        simulation.run(self._process, self._require({each: {value} for each, value in final.items()}))

    async def _perform(self, admin: Admin) -> None:
        rng = self._process.rng
        await asyncio.sleep(rng.uniform(0, PAUSE_S))
        resource = self._topic if rng.random() < 0.5 else rng.choice(self._brokers)
        choices = TOPIC_CHOICES if resource == self._topic else BROKER_CHOICES
        if rng.random() < 0.5:
            await self._set_number(admin, resource)
        else:
            key = rng.choice(sorted(choices))
            is_deletion = rng.random() < 0.3
            change = (
                ConfigChange(name=key, value=None, operation=AlterOperation.DELETE)
                if is_deletion
                else ConfigChange(name=key, value=rng.choice(choices[key]))
            )
            error = (await admin.incremental_alter_configs({resource: [change]}))[resource]
            if error is not None:
                raise error

    async def _set_number(self, admin: Admin, resource: ConfigResource) -> None:
        value = str(next(self._numbers))
        possible = self._possible.setdefault(resource, set())
        # Until there is a response, either value may be in effect.
        possible.add(value)
        error = (
            await admin.incremental_alter_configs(
                {resource: [ConfigChange(name=_key(resource), value=value)]}
            )
        )[resource]
        if error is not None:
            raise error
        self._changed.add(resource)
        if not delays_requests(self._plan.faults):
            self._possible[resource] = {value}

    async def _set_all(self, values: dict[ConfigResource, str]) -> None:
        async with Admin(self._servers, environment=self._process.environment) as admin:

            async def set_values() -> None:
                changes = {
                    each: [ConfigChange(name=_key(each), value=value)] for each, value in values.items()
                }
                for error in (await admin.incremental_alter_configs(changes)).values():
                    if error is not None:
                        raise error

            await until_done(set_values)

    async def _require(self, expected: dict[ConfigResource, set[str]]) -> None:
        """Read each resource from all brokers that know it, until they agree. Errors: Violation."""
        async with Admin(self._servers, environment=self._process.environment) as admin:
            wrong = ""
            for _ in range(int(self._plan.liveness_s)):
                wrong = await self._difference(admin, expected)
                if not wrong:
                    return
                await asyncio.sleep(1)
            raise Violation(wrong)

    async def _difference(self, admin: Admin, expected: dict[ConfigResource, set[str]]) -> str:
        """Return the first resource with another value; empty if there is none."""
        try:
            described = await admin.describe_configs(expected)
        except KafkaError as error:
            return f"configs cannot be read: {error!r}"
        for resource, values in expected.items():
            entries = described[resource]
            actual = None if isinstance(entries, KafkaError) else entries[_key(resource)].value
            if actual not in values:
                return f"{resource} has {actual!r}, and was set to {sorted(values)}"
        for node in running_brokers(self._simulation.cluster):
            for replica in partitions_of(node):
                size = str(replica.log.config.max_message_bytes)
                is_topic = replica.topic_partition.topic == self._topic.name and self._topic in expected
                if is_topic and size not in expected[self._topic]:
                    return f"node {node.node_id} uses {TOPIC_KEY}={size}, not {sorted(expected[self._topic])}"
        return ""


def delays_requests(faults: FaultRates) -> bool:
    """Return whether a request can arrive after a later one of the same client."""
    return any(
        (faults.cut, faults.one_way_cut, faults.slow_link, faults.pause, faults.slow_disk, faults.reset)
    )


def _key(resource: ConfigResource) -> str:
    """Return the numbered key of a resource."""
    return TOPIC_KEY if resource.resource_type is ResourceType.TOPIC else BROKER_KEY
