"""The clients of a simulated cluster: producers, and a consumer that reads while faults happen."""

from __future__ import annotations

import asyncio

from tests.sim.cluster.ledger import Ledger
from tests.sim.cluster.plan import Plan
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import DeliveryFuture, Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.simulation import Simulation

IN_FLIGHT_MAX = 50
PROCESSING_S_MAX = 0.1


class LoadProducer:
    """Sends numbered records to random partitions until `is_stopped`, and records the results."""

    def __init__(self, simulation: Simulation, plan: Plan, ledger: Ledger, name: str, topic: str) -> None:
        self._servers = simulation.cluster.bootstrap_servers
        self._plan = plan
        self._ledger = ledger
        self._name = name
        self._topic = topic
        self._process = simulation.cluster.client(name)
        self._waiting: set[asyncio.Task[None]] = set()
        self.is_stopped = False
        self.task = self._process.start(self._run())

    async def _run(self) -> None:
        random = self._process.rng
        session = number = 0
        while not self.is_stopped:
            session += 1
            try:
                async with Producer(
                    self._servers,
                    environment=self._process.environment,
                    compression_type=self._plan.compression,
                    max_block_ms=10_000,
                    request_timeout_ms=5_000,
                    delivery_timeout_ms=60_000,
                ) as producer:
                    while not self.is_stopped:
                        for _ in range(1 + random.randrange(5)):
                            number += 1
                            await self._send(producer, b"%s.%d-%d" % (self._name.encode(), session, number))
                        await asyncio.sleep(random.uniform(0, 2 * self._plan.pause_of_producers_s))
            except KafkaError:
                await asyncio.sleep(0.5)

    async def _send(self, producer: Producer, value: bytes) -> None:
        self._ledger.sent += 1
        try:
            delivery = await producer.send(
                self._topic, value, partition=self._process.rng.randrange(self._plan.partitions)
            )
        except KafkaError:
            self._ledger.unknown += 1
            raise
        waiting = asyncio.create_task(self._wait(value, delivery))
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)
        if len(self._waiting) >= IN_FLIGHT_MAX:
            await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)

    async def _wait(self, value: bytes, delivery: DeliveryFuture) -> None:
        try:
            written = await delivery
        except KafkaError:
            self._ledger.unknown += 1
        else:
            self._ledger.on_acknowledged(
                value, TopicPartition(written.topic, written.partition), written.offset
            )


class LoadConsumer:
    """Reads all partitions from the start, without a group, until `is_stopped`."""

    def __init__(self, simulation: Simulation, plan: Plan, ledger: Ledger, name: str, topic: str) -> None:
        self._servers = simulation.cluster.bootstrap_servers
        self._ledger = ledger
        self._partitions = [TopicPartition(topic, number) for number in range(plan.partitions)]
        self._process = simulation.cluster.client(name)
        self.is_stopped = False
        self.task = self._process.start(self._run())

    async def _run(self) -> None:
        next_offsets = dict.fromkeys(self._partitions, 0)
        while not self.is_stopped:
            try:
                async with Consumer(
                    self._servers, environment=self._process.environment, auto_offset_reset="none",
                    default_api_timeout_ms=10_000, request_timeout_ms=5_000,
                ) as consumer:  # fmt: skip
                    consumer.assign(self._partitions)
                    for partition, offset in next_offsets.items():
                        consumer.seek(partition, offset)
                    while not self.is_stopped:
                        for partition, records in (await consumer.poll(timeout_ms=500)).items():
                            assert records[0].offset == next_offsets[partition], "records were skipped"
                            self._ledger.on_read(records)
                            next_offsets[partition] = records[-1].offset + 1
                        await asyncio.sleep(self._process.rng.uniform(0, PROCESSING_S_MAX))
            except KafkaError:
                await asyncio.sleep(0.5)


async def read_everything(
    process: Process, servers: str, topic: str, partitions: int, isolation_level: str = "read_uncommitted"
) -> dict[TopicPartition, dict[int, bytes]]:
    """Return the values of a topic by partition and offset, up to its current end."""
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    values: dict[TopicPartition, dict[int, bytes]] = {partition: {} for partition in wanted}
    async with Consumer(
        servers,
        environment=process.environment,
        auto_offset_reset="earliest",
        isolation_level=isolation_level,
    ) as consumer:
        consumer.assign(wanted)
        ends = await consumer.end_offsets(wanted)
        while True:
            for partition, records in (await consumer.poll(timeout_ms=500)).items():
                for record in records:
                    values[partition][record.offset] = record.value or b""
            # Markers of transactions have offsets, but are not returned.
            positions = {partition: await consumer.position(partition) for partition in wanted}
            if all(positions[partition] >= ends[partition] for partition in wanted):
                return values
