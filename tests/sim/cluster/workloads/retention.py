"""A topic with short retention, whose retention time changes, and whose records are deleted by requests too.

early    no record is deleted before the shortest retention time, unless a request has deleted it
gaps     every acknowledged record from the log start offset on is readable at its offset
late     at the end, all records are deleted when the retention time has passed
"""

from __future__ import annotations

import asyncio

from tests.sim.cluster.clients import read_everything
from tests.sim.cluster.plan import Plan
from tests.sim.cluster.replication import partitions_of, running_brokers
from tests.sim.cluster.topics import create_topic
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.waiting import wait_until
from tests.sim.cluster.workloads.workload import AdminClient, Client, until_done
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.scheduler import MS
from tidelog.testing.simulation.simulation import Simulation

TOPIC = "expiring"
RETENTIONS_MS = (4_000, 10_000, 3_600_000)
TOPIC_CONFIG = {"internal.segment.bytes": "1000", "retention.ms": str(RETENTIONS_MS[0])}
CHECK_EVERY_NS = 100 * MS
PAUSE_S = 3.0
CLOCK_ERROR_MS = 500


class Retention:
    """A producer, and an administrator that changes the retention time and deletes records."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._plan = plan
        self._producer = simulation.cluster.client("expiring-producer")
        self._process = simulation.cluster.client("retention")
        self._acknowledged: dict[TopicPartition, dict[int, tuple[bytes, int]]] = {}
        """The value and the time of each offset."""
        self._requested: dict[TopicPartition, int] = {}
        """The offset before which records may have been deleted by a request."""
        self._number = 0
        self.clients: list[Client] = []

    def start(self) -> None:
        """Create the topic, and start both clients."""
        topic = NewTopic(name=TOPIC, num_partitions=self._plan.partitions, configs=TOPIC_CONFIG)
        creation = create_topic(self._process, self._cluster.bootstrap_servers, topic)
        self._simulation.run(self._process, creation)
        self.clients.append(AdminClient(self._simulation, self._producer, self._produce))
        self.clients.append(AdminClient(self._simulation, self._process, self._perform))
        if not self._plan.faults.clock_step:
            self._check_deletions()

    def check(self) -> None:
        """Compare what is left with what was acknowledged; then let everything expire."""
        simulation, count = self._simulation, self._plan.partitions
        servers = self._cluster.bootstrap_servers
        records = simulation.run(self._process, read_everything(self._process, servers, TOPIC, count))
        for partition, values in records.items():
            self._check_values(partition, values)
        if self._plan.faults.clock_step:
            return
        simulation.run(self._process, self._set_retention(RETENTIONS_MS[0]))
        limit_s = RETENTIONS_MS[0] / 1000 + self._plan.liveness_s
        if not wait_until(simulation, self._is_empty, limit_s):
            raise Violation(f"records of {TOPIC} exist {limit_s:g} s after the last one was written")

    # ---- clients

    async def _produce(self, admin: Admin) -> None:
        rng = self._producer.rng
        async with Producer(
            self._cluster.bootstrap_servers,
            environment=self._producer.environment,
            max_block_ms=10_000,
            request_timeout_ms=5_000,
            delivery_timeout_ms=30_000,
        ) as producer:
            for _ in range(50):
                self._number += 1
                value = b"%d" % self._number
                sent_ms = self._now_ms
                partition = rng.randrange(self._plan.partitions)
                written = await (await producer.send(TOPIC, value, partition=partition))
                values = self._acknowledged.setdefault(TopicPartition(TOPIC, written.partition), {})
                values[written.offset] = value, sent_ms
                await asyncio.sleep(rng.uniform(0, 0.2))

    async def _perform(self, admin: Admin) -> None:
        rng = self._process.rng
        await asyncio.sleep(rng.uniform(0, PAUSE_S))
        if rng.random() < 0.6:
            await self._change_retention(admin, rng.choice(RETENTIONS_MS))
            return
        partition = TopicPartition(TOPIC, rng.randrange(self._plan.partitions))
        offsets = sorted(self._acknowledged.get(partition, {}))
        if offsets:
            before = rng.choice(offsets)
            self._requested[partition] = max(before, self._requested.get(partition, 0))
            result = (await admin.delete_records({partition: before}))[partition]
            if isinstance(result, KafkaError):
                raise result

    async def _set_retention(self, retention_ms: int) -> None:
        async with Admin(self._cluster.bootstrap_servers, environment=self._process.environment) as admin:
            await until_done(lambda: self._change_retention(admin, retention_ms))

    async def _change_retention(self, admin: Admin, retention_ms: int) -> None:
        resource = ConfigResource(ResourceType.TOPIC, TOPIC)
        change = ConfigChange(name="retention.ms", value=str(retention_ms))
        error = (await admin.incremental_alter_configs({resource: [change]}))[resource]
        if error is not None:
            raise error

    # ---- checks

    @property
    def _now_ms(self) -> int:
        return self._simulation.scheduler.now_ns // MS

    def _check_deletions(self) -> None:
        """Check what the running replicas have deleted, again and again. Errors: Violation."""
        expired_ms = self._now_ms - RETENTIONS_MS[0] + CLOCK_ERROR_MS
        for node in running_brokers(self._cluster):
            for replica in partitions_of(node):
                name = replica.topic_partition
                if name.topic == TOPIC:
                    self._check_start(name, replica.log.log_start_offset, expired_ms)
        self._simulation.scheduler.after(CHECK_EVERY_NS, self._check_deletions)

    def _check_start(self, partition: TopicPartition, log_start_offset: int, expired_ms: int) -> None:
        for offset, (value, sent_ms) in self._acknowledged.get(partition, {}).items():
            is_requested = offset < self._requested.get(partition, 0)
            if offset < log_start_offset and sent_ms > expired_ms and not is_requested:
                raise Violation(f"{value!r} of {partition} at offset {offset} was deleted too early")

    def _check_values(self, partition: TopicPartition, values: dict[int, bytes]) -> None:
        start = min(values, default=0)
        offsets = sorted(values)
        if offsets and offsets != list(range(start, start + len(offsets))):
            raise Violation(f"{partition} has the offsets {offsets}")
        for offset, (value, _) in self._acknowledged.get(partition, {}).items():
            if values and offset >= start and values.get(offset) != value:
                raise Violation(f"{value!r} was acknowledged at {partition} {offset}: {values.get(offset)!r}")

    def _is_empty(self) -> bool:
        """Return whether no replica has records."""
        return all(
            replica.log.log_start_offset == replica.log.log_end_offset
            for node in running_brokers(self._cluster)
            for replica in partitions_of(node)
            if replica.topic_partition.topic == TOPIC
        )
