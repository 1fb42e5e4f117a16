"""A share group: each record is delivered at least once, and not again after its acceptance was confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.topics import create_topic
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.workloads.workload import AdminClient, Client, until_done
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from tidelog.clients.producer.producer import Producer
from tidelog.clients.share_consumer.share_consumer import ShareConsumer
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.simulation import Simulation

TOPIC = "jobs"
GROUP = "workers"
GROUP_CONFIG = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "10",
    "share.record.lock.duration.ms": "2000",
}
MEMBERS = 2
RELEASED_SHARE = 0.05
STAY_POLLS_MAX = 20
EXPIRY_S = 3.0
"""The locks of all records have expired after this time."""
LAST_POLLS_MAX = 100
"""The last member gets the partitions of members that have ended when their sessions have expired."""
Record = tuple[int, int]
"""Partition and offset."""


class ShareGroup:
    """A producer, and members that join, accept most records, and leave."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._servers = simulation.cluster.bootstrap_servers
        self._plan = plan
        self._producer = simulation.cluster.client("job-producer")
        self._members = [simulation.cluster.client(f"worker-{number}") for number in range(MEMBERS)]
        self._written: set[Record] = set()
        self._delivered: set[Record] = set()
        self._confirmed: set[Record] = set()
        self._number = 0
        self.clients: list[Client] = []

    def start(self) -> None:
        """Create the topic, configure the group, and start the clients."""
        topic = NewTopic(name=TOPIC, num_partitions=self._plan.partitions)
        self._simulation.run(self._producer, create_topic(self._producer, self._servers, topic))
        self._simulation.run(self._producer, self._configure())
        self.clients.append(AdminClient(self._simulation, self._producer, self._produce))
        for member in self._members:
            self.clients.append(AdminClient(self._simulation, member, partial(self._work, member)))

    def check(self) -> None:
        """Let a last member take what is left before a last record of each partition. Errors: Violation."""
        simulation, last = self._simulation, self._members[0]
        simulation.run_for(EXPIRY_S)
        confirmed = set(self._confirmed)
        before = self._delivered
        self._delivered = set()
        simulation.run(self._producer, self._write_last_records())

        def missing() -> set[Record]:
            return self._written - before - self._delivered

        simulation.run(last, self._take_until(lambda: not missing(), last))
        if again := sorted(self._delivered & confirmed):
            raise Violation(f"{again[0]} of {TOPIC} was accepted, and is delivered again")
        if missing():
            raise Violation(f"{min(missing())} of {TOPIC} was never delivered")

    async def _configure(self) -> None:
        resource = ConfigResource(ResourceType.GROUP, GROUP)
        changes = [ConfigChange(name=name, value=value) for name, value in GROUP_CONFIG.items()]
        async with Admin(self._servers, environment=self._producer.environment) as admin:

            async def configure() -> None:
                error = (await admin.incremental_alter_configs({resource: changes}))[resource]
                if error is not None:
                    raise error

            await until_done(configure)

    async def _produce(self, admin: Admin) -> None:
        rng = self._producer.rng
        async with self._open_producer() as producer:
            for _ in range(50):
                await self._write(producer, rng.randrange(self._plan.partitions))
                await asyncio.sleep(rng.uniform(0, 0.1))

    async def _write_last_records(self) -> None:
        async def write() -> None:
            async with self._open_producer() as producer:
                for partition in range(self._plan.partitions):
                    await self._write(producer, partition)

        await until_done(write)

    async def _write(self, producer: Producer, partition: int) -> None:
        self._number += 1
        written = await producer.send_and_wait(TOPIC, b"%d" % self._number, partition=partition)
        self._written.add((written.partition, written.offset))

    def _open_producer(self) -> Producer:
        return Producer(
            self._servers,
            environment=self._producer.environment,
            max_block_ms=10_000,
            request_timeout_ms=5_000,
            delivery_timeout_ms=30_000,
        )

    async def _work(self, member: Process, admin: Admin) -> None:
        """Join, accept and release records, and leave."""
        async with self._consumer(member) as consumer:
            consumer.subscribe([TOPIC])
            for _ in range(1 + member.rng.randrange(STAY_POLLS_MAX)):
                await self._take(consumer, member, RELEASED_SHARE)

    async def _take_until(self, is_done: Callable[[], bool], member: Process) -> None:
        async def take() -> None:
            async with self._consumer(member) as consumer:
                consumer.subscribe([TOPIC])
                for _ in range(LAST_POLLS_MAX):
                    await self._take(consumer, member, 0.0)
                    if is_done():
                        return

        await until_done(take)

    async def _take(self, consumer: ShareConsumer, member: Process, released_share: float) -> None:
        """Poll once, and acknowledge the records."""
        accepted: dict[int, set[Record]] = {}
        for partition, records in (await consumer.poll(500)).items():
            for record in records:
                name = partition.partition, record.offset
                self._delivered.add(name)
                if member.rng.random() < released_share:
                    consumer.acknowledge(record, AcknowledgeType.RELEASE)
                else:
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT)
                    accepted.setdefault(partition.partition, set()).add(name)
        for topic_partition, error in (await consumer.commit()).items():
            if error is None:
                self._confirmed |= accepted.get(topic_partition.partition, set())

    def _consumer(self, member: Process) -> ShareConsumer:
        return ShareConsumer(
            self._servers,
            environment=member.environment,
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
        )
