"""A compacted topic: whatever the cleaner removes, the last value of each key is kept.

Each partition has one producer, which writes increasing numbers to random keys, and tombstones. Meanwhile,
the workers of the cleaners are killed.

last value   a read from the start to the end finds, for each key, the last record that was acknowledged
             before the read began, or a later one; a tombstone may have been removed
content      a record that is read is the one that was acknowledged at its offset, or has no response
progress     at the end, the cleaned part of each replica is smaller than what was written
"""

from __future__ import annotations

import asyncio
from functools import partial

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.topics import create_topic
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.workloads.workload import AdminClient, Client
from tidelog.clients.admin.admin import Admin, NewTopic
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import DeliveryFuture, Producer
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.simulation import Simulation

TOPIC = "compacted"
KEYS = 8
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1000",
    "segment.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "3000",
}
TOMBSTONE_SHARE = 0.15
KILL_PAUSE_S = 5.0
MANY_RECORDS = 200
Values = dict[int, tuple[bytes, bytes | None]]
"""Key and value by offset; the value of a tombstone is None."""


class KeyedLedger:
    """What was written to one partition. A record without a response may arrive later, or never."""

    def __init__(self) -> None:
        self._sent: list[tuple[bytes, bytes | None]] = []
        """Key and value of each record, by number."""
        self._waiting: dict[int, tuple[bytes, bytes | None]] = {}
        """The records without a response."""
        self.by_offset: Values = {}
        """The acknowledged records."""
        self._last_offsets: dict[bytes, int] = {}
        """The highest acknowledged offset of each key."""

    def send(self, key: bytes, is_tombstone: bool) -> tuple[int, bytes | None]:
        """Add a record; return its number and its value."""
        number = len(self._sent)
        value = None if is_tombstone else b"%d" % number
        self._sent.append((key, value))
        self._waiting[number] = key, value
        return number, value

    def on_acknowledged(self, number: int, offset: int) -> None:
        """Add the acknowledgement of a record."""
        record = self.by_offset[offset] = self._waiting.pop(number)
        self._last_offsets[record[0]] = max(offset, self._last_offsets.get(record[0], -1))

    def last_offsets(self) -> dict[bytes, int]:
        """Return the highest acknowledged offset of each key so far."""
        return dict(self._last_offsets)

    def check(self, partition: TopicPartition, read: Values, expected: dict[bytes, int]) -> None:
        """Compare a read with the `last_offsets` from before its begin. Errors: Violation."""
        last_offsets: dict[bytes, int] = {}
        sent = set(self._sent)
        for offset in sorted(read):
            record = read[offset]
            if offset in self.by_offset:
                if self.by_offset[offset] != record:
                    raise Violation(f"{partition} {offset} is {record}, and was {self.by_offset[offset]}")
            elif record not in sent:
                raise Violation(f"{partition} {offset} is {record}, which was not sent")
            last_offsets[record[0]] = offset
        for key, offset in expected.items():
            if key in last_offsets:
                is_kept = last_offsets[key] >= offset
            else:
                later = {record for other, record in self.by_offset.items() if other >= offset}
                is_kept = (key, None) in later or (key, None) in self._waiting.values()
            if not is_kept:
                raise Violation(
                    f"{partition}: the last record of {key!r} is at {last_offsets.get(key)}, and was {offset}"
                )


class Compaction:
    """A producer of each partition, a reader, and deaths of the workers."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._plan = plan
        self._reader = simulation.cluster.client("compacted-reader")
        self._ledgers = [KeyedLedger() for _ in range(plan.partitions)]
        self._processes = [
            simulation.cluster.client(f"compacted-{number}") for number in range(plan.partitions)
        ]
        self.clients: list[Client] = []

    def start(self) -> None:
        """Create the topic, and start the clients."""
        topic = NewTopic(name=TOPIC, num_partitions=self._plan.partitions, configs=TOPIC_CONFIG)
        servers = self._cluster.bootstrap_servers
        self._simulation.run(self._reader, create_topic(self._reader, servers, topic))
        for number, process in enumerate(self._processes):
            self.clients.append(AdminClient(self._simulation, process, partial(self._produce, number)))
        self.clients.append(AdminClient(self._simulation, self._reader, self._read_and_kill))

    def check(self) -> None:
        """Read everything once more, and require that the logs were compacted."""
        simulation = self._simulation
        simulation.run(self._reader, self._check_reads())
        written = sum(len(ledger.by_offset) for ledger in self._ledgers)
        if written < MANY_RECORDS:
            return

        def is_compacted() -> bool:
            return simulation.run(self._reader, self._check_reads()) < written / 2

        for _ in range(int(self._plan.liveness_s / 10)):
            if is_compacted():
                return
            simulation.run_for(10.0)
        raise Violation(f"{TOPIC} has not been compacted; {written} records were written")

    async def _produce(self, number: int, admin: Admin) -> None:
        ledger, rng = self._ledgers[number], self._processes[number].rng
        async with Producer(
            self._cluster.bootstrap_servers,
            environment=self._processes[number].environment,
            max_block_ms=10_000,
            request_timeout_ms=5_000,
            delivery_timeout_ms=30_000,
        ) as producer:
            deliveries: list[tuple[int, DeliveryFuture]] = []
            for _ in range(20):
                key = b"key-%d" % rng.randrange(KEYS)
                record, value = ledger.send(key, rng.random() < TOMBSTONE_SHARE)
                deliveries.append((record, await producer.send(TOPIC, value, key=key, partition=number)))
                await asyncio.sleep(rng.uniform(0, 0.05))
            for record, delivery in deliveries:
                ledger.on_acknowledged(record, (await delivery).offset)

    async def _read_and_kill(self, admin: Admin) -> None:
        rng = self._reader.rng
        await asyncio.sleep(rng.uniform(0, KILL_PAUSE_S))
        if rng.random() < 0.5:
            await self._check_reads()
            return
        workers = [each for node in self._cluster.nodes.values() for each in node.cleaning_workers]
        if workers:
            rng.choice(workers).kill()

    async def _check_reads(self) -> int:
        """Read all partitions and compare them; return the number of records."""
        expected = [ledger.last_offsets() for ledger in self._ledgers]
        read = await read_keyed(self._reader, self._cluster.bootstrap_servers, self._plan.partitions)
        for number, values in enumerate(read):
            self._ledgers[number].check(TopicPartition(TOPIC, number), values, expected[number])
        return sum(map(len, read))


async def read_keyed(process: Process, servers: str, count: int) -> list[Values]:
    """Return the records of each partition, from its start to its current end."""
    partitions = [TopicPartition(TOPIC, number) for number in range(count)]
    values: list[Values] = [{} for _ in partitions]
    async with Consumer(servers, environment=process.environment, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while True:
            for partition, records in (await consumer.poll(timeout_ms=500)).items():
                for record in records:
                    values[partition.partition][record.offset] = record.key or b"", record.value
            positions = {partition: await consumer.position(partition) for partition in partitions}
            if all(positions[partition] >= ends[partition] for partition in partitions):
                return values
