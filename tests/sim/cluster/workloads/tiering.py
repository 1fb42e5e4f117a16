"""A tiered topic with short local retention: its records are in the logs, in the object store, or in both.

Requests delete the first records, and so the first segments of the tier (KIP-107). Meanwhile
`TierInvariants` compares objects and metadata.

offsets   a read from the start to the end returns every offset once, with the value that was acknowledged
start     only requests delete records
objects   at the end, each finished segment has its three objects, and there are no other objects
metadata  at the end, all replicas know the same segments, and none is unfinished
"""

from __future__ import annotations

import asyncio
from functools import partial

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.replication import running_brokers
from tests.sim.cluster.topics import create_topic
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.waiting import wait_until
from tests.sim.cluster.workloads.tier_invariants import FINISHED, TierInvariants, segments_of
from tests.sim.cluster.workloads.workload import AdminClient, Client
from tidelog.clients.admin.admin import Admin, NewTopic
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import DeliveryFuture, Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.objects.layout.object_keys import ObjectKeys
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.testing.simulation.simulation import Simulation

TOPIC = "tiered"
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "1000",
    "segment.ms": "3000",
    "local.retention.ms": "2000",
    "retention.ms": "-1",
}
SETTLE_S = 5.0
TIER_S_MAX = 30.0
"""The time after the last fault within which no object is without metadata, and no segment unfinished."""
DELETION_PAUSE_S = 8.0
DELETED_SHARE = 0.3
"""The largest part of the records that one request deletes."""


class Tiering:
    """A producer of each partition, and a reader that reads everything again and again."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._plan = plan
        self._reader = simulation.cluster.client("tiered-reader")
        self._producers = [simulation.cluster.client(f"tiered-{number}") for number in range(plan.partitions)]
        self._admin = simulation.cluster.client("tiered-admin")
        self._invariants = TierInvariants(simulation.cluster)
        self._requested: dict[TopicPartition, int] = {}
        """The offset before which records may have been deleted."""
        self._acknowledged: list[dict[int, bytes]] = [{} for _ in range(plan.partitions)]
        self._number = 0
        self.clients: list[Client] = []

    def start(self) -> None:
        """Create the topic, and start the clients."""
        topic = NewTopic(name=TOPIC, num_partitions=self._plan.partitions, configs=TOPIC_CONFIG)
        servers = self._cluster.bootstrap_servers
        self._simulation.run(self._reader, create_topic(self._reader, servers, topic))
        for number, process in enumerate(self._producers):
            self.clients.append(AdminClient(self._simulation, process, partial(self._produce, number)))
        self.clients.append(AdminClient(self._simulation, self._reader, self._read_later))
        self.clients.append(AdminClient(self._simulation, self._admin, self._delete_records))
        self._invariants.start(TOPIC)

    def check(self) -> None:
        """Wait until the tier is complete; then compare objects, metadata and records."""
        simulation = self._simulation
        if not wait_until(simulation, lambda: not self._differences(), TIER_S_MAX):
            raise Violation(self._differences())
        simulation.run_for(SETTLE_S)
        if self._differences():
            raise Violation(self._differences())
        simulation.run(self._reader, self._read())

    # ---- clients

    async def _produce(self, number: int, admin: Admin) -> None:
        process = self._producers[number]
        async with Producer(
            self._cluster.bootstrap_servers,
            environment=process.environment,
            max_block_ms=10_000,
            request_timeout_ms=5_000,
            delivery_timeout_ms=30_000,
        ) as producer:
            deliveries: list[tuple[bytes, DeliveryFuture]] = []
            for _ in range(20):
                self._number += 1
                value = b"%d" % self._number
                deliveries.append((value, await producer.send(TOPIC, value, partition=number)))
                await asyncio.sleep(process.rng.uniform(0, 0.1))
            for value, delivery in deliveries:
                self._acknowledged[number][(await delivery).offset] = value

    async def _delete_records(self, admin: Admin) -> None:
        rng = self._admin.rng
        await asyncio.sleep(rng.uniform(0, DELETION_PAUSE_S))
        partition = TopicPartition(TOPIC, rng.randrange(self._plan.partitions))
        offsets = sorted(self._acknowledged[partition.partition])
        if not offsets:
            return
        first = self._requested.get(partition, 0)
        before = first + int((offsets[-1] - first) * rng.uniform(0, DELETED_SHARE))
        self._requested[partition] = before
        result = (await admin.delete_records({partition: before}))[partition]
        if isinstance(result, KafkaError):
            raise result

    async def _read_later(self, admin: Admin) -> None:
        await asyncio.sleep(self._reader.rng.uniform(0, 4.0))
        await self._read()

    async def _read(self) -> None:
        """Read every partition from its start to its current end. Errors: Violation; KafkaError."""
        partitions = [TopicPartition(TOPIC, number) for number in range(self._plan.partitions)]
        async with Consumer(
            self._cluster.bootstrap_servers,
            environment=self._reader.environment,
            auto_offset_reset="none",
            default_api_timeout_ms=10_000,
            request_timeout_ms=5_000,
        ) as consumer:
            consumer.assign(partitions)
            next_offsets = await self._seek_to_start(consumer, partitions)
            ends = await consumer.end_offsets(partitions)
            while any(next_offsets[partition] < ends[partition] for partition in partitions):
                for partition, records in (await consumer.poll(timeout_ms=500)).items():
                    acknowledged = self._acknowledged[partition.partition]
                    for record in records:
                        if record.offset != next_offsets[partition]:
                            raise Violation(
                                f"{partition}: offset {record.offset} was read, not {next_offsets[partition]}"
                            )
                        if acknowledged.get(record.offset, record.value) != record.value:
                            raise Violation(
                                f"{partition} {record.offset} is {record.value!r}, and was "
                                f"{acknowledged[record.offset]!r}"
                            )
                        next_offsets[partition] += 1
        for partition in partitions:
            last = max(self._acknowledged[partition.partition], default=-1)
            if self._is_at_rest and last >= ends[partition]:
                raise Violation(f"{partition} ends at {ends[partition]}, and {last} was acknowledged")

    async def _seek_to_start(
        self, consumer: Consumer, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first offsets. Errors: Violation if records were deleted without a request."""
        starts = await consumer.beginning_offsets(partitions)
        for partition, start in starts.items():
            if start > self._requested.get(partition, 0):
                raise Violation(
                    f"{partition} starts at {start}; the largest requested start is "
                    f"{self._requested.get(partition, 0)}"
                )
            consumer.seek(partition, start)
        return starts

    @property
    def _is_at_rest(self) -> bool:
        """Whether no producer writes any more."""
        return all(client.task.done() for client in self.clients)

    # ---- the tier

    def _differences(self) -> str:
        """Return how the objects differ from the metadata of the nodes; empty if they are equal."""
        topic = self._cluster.image.topics_by_name[TOPIC]
        expected: set[str] = set()
        for number, registration in topic.partitions.items():
            partition = TopicIdPartition(topic.id, TOPIC, number)
            segments = [
                segments_of(node, partition)
                for node in running_brokers(self._cluster)
                if node.node_id in registration.replicas
            ]
            if not segments or segments[0] is None or any(each != segments[0] for each in segments):
                return f"the replicas do not know the same segments of {partition}"
            unfinished = [each for each in segments[0] if each.state is not FINISHED]
            if unfinished:
                return f"{partition} has the unfinished segment {unfinished[0]}"
            expected |= {key for each in segments[0] for key in ObjectKeys().of(each).all}
        present = set(self._cluster.bucket.objects)
        if missing := expected - present:
            return f"{len(missing)} objects are missing: {min(missing)}"
        if surplus := present - expected:
            return f"{len(surplus)} objects have no metadata: {min(surplus)}"
        return ""
