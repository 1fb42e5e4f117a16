"""A topic that is created, written, read and deleted, again and again, under the same name.

strong   while all running nodes know only the newest topic of the name, an acknowledged record is readable
always   a record that was acknowledged before the deletion of its topic began is in no later topic

A node that has not yet replayed a deletion serves the former topic. Records that are acknowledged meanwhile
are lost, as in Apache Kafka: producers send names. Therefore the strong rule needs nodes that know the topic.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from tests.sim.cluster.clients import read_everything
from tests.sim.cluster.log_directories import require_exact_directories
from tests.sim.cluster.plan import Plan
from tests.sim.cluster.replication import running_brokers
from tests.sim.cluster.violation import Violation
from tests.sim.cluster.workloads.workload import AdminClient, Client, until_done
from tidelog.clients.admin.admin import Admin, NewTopic
from tidelog.clients.producer.producer import Producer
from tidelog.cluster.image import TopicImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.simulation import Simulation

TOPIC = "short-lived"
KNOWN_POLL_S = 0.05
CHECKED_SHARE = 0.7
PAUSE_S = 2.0


class Recreation:
    """One client performs the cycle; another one sends to the name all the time."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._plan = plan
        self._process = simulation.cluster.client("recreator")
        self._straggler = simulation.cluster.client("straggler")
        self._topic_id: UUID | None = None
        """The topic that all nodes know, and whose deletion has not begun."""
        self._deleted_ids: set[UUID] = set()
        self._written: set[bytes] = set()
        """Acknowledged values of the topic or of an earlier one, until the deletion begins."""
        self._deleted: set[bytes] = set()
        """Values that were acknowledged before the deletion of their topic began."""
        self._number = 0
        self.cycles = 0
        self.clients: list[Client] = []

    def start(self) -> None:
        """Start both clients."""
        self.clients.append(AdminClient(self._simulation, self._process, self._perform_cycle))
        self.clients.append(AdminClient(self._simulation, self._straggler, self._send_always))

    def check(self) -> None:
        """Require that no deleted record is readable, and that no directory of a deleted topic is left."""
        simulation = self._simulation
        topic = self._cluster.image.topics_by_name.get(TOPIC)
        if topic is not None:
            simulation.run(self._process, self._check_values(topic, {}))
        require_exact_directories(simulation, self._plan.liveness_s)

    # ---- the cycle

    async def _perform_cycle(self, admin: Admin) -> None:
        rng = self._process.rng
        topic = await self._create(admin)
        self._topic_id = topic.id
        acknowledged = await self._write(topic)
        if rng.random() < CHECKED_SHARE:
            await until_done(lambda: self._check_values(topic, acknowledged))
        self._deleted |= self._written
        self._written.clear()
        self._topic_id = None
        self._deleted_ids.add(topic.id)
        await until_done(lambda: self._delete(admin))
        self.cycles += 1
        if rng.random() < 0.5:
            await asyncio.sleep(rng.uniform(0, PAUSE_S))

    async def _create(self, admin: Admin) -> TopicImage:
        """Create the topic, and return it when all running nodes know it."""
        count = 1 + self._process.rng.randrange(3)
        while True:
            topic = self._known_topic()
            if topic is not None:
                return topic
            try:
                results = await admin.create_topics([NewTopic(name=TOPIC, num_partitions=count)])
                error = results[TOPIC]
                if isinstance(error, KafkaError) and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise error
            except KafkaError:
                pass
            await asyncio.sleep(KNOWN_POLL_S)

    def _known_topic(self) -> TopicImage | None:
        """Return the topic if all running nodes know the same one, and its deletion was not requested."""
        images = [node.broker.services.image() for node in running_brokers(self._cluster) if node.broker]
        topics = [image.topics_by_name.get(TOPIC) for image in images]
        first = topics[0] if topics else None
        if first is None or first.id in self._deleted_ids:
            return None
        return first if all(topic is not None and topic.id == first.id for topic in topics) else None

    async def _write(self, topic: TopicImage) -> dict[bytes, tuple[TopicPartition, int]]:
        """Send some records and return the acknowledged ones."""
        acknowledged: dict[bytes, tuple[TopicPartition, int]] = {}
        rng = self._process.rng
        try:
            async with self._producer(self._process.environment) as producer:
                for _ in range(rng.randrange(30)):
                    self._number += 1
                    value = b"%d" % self._number
                    partition = rng.randrange(len(topic.partitions))
                    written = await (await producer.send(TOPIC, value, partition=partition))
                    acknowledged[value] = TopicPartition(TOPIC, written.partition), written.offset
                    self._written.add(value)
        except KafkaError:
            pass
        return acknowledged

    async def _check_values(
        self, topic: TopicImage, acknowledged: dict[bytes, tuple[TopicPartition, int]]
    ) -> None:
        """Read the topic. Errors: Violation; KafkaError."""
        count, servers = len(topic.partitions), self._cluster.bootstrap_servers
        records = await read_everything(self._process, servers, TOPIC, count)
        for value, (partition, offset) in acknowledged.items():
            if records[partition].get(offset) != value:
                raise Violation(f"{value!r} was acknowledged at {partition} {offset}, and is not there")
        for partition, values in records.items():
            for offset, value in values.items():
                if value in self._deleted:
                    raise Violation(f"{value!r} of a deleted topic is at {partition} {offset} of a new one")

    async def _delete(self, admin: Admin) -> None:
        error = (await admin.delete_topics([TOPIC]))[TOPIC]
        if error is not None and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error

    # ---- the other client

    async def _send_always(self, admin: Admin) -> None:
        """Send with one producer, which exists longer than the topics."""
        rng = self._straggler.rng
        async with self._producer(self._straggler.environment) as producer:
            for _ in range(50):
                self._number += 1
                value = b"straggler-%d" % self._number
                topic_id = self._topic_id
                await (await producer.send(TOPIC, value, partition=0))
                if topic_id is not None and topic_id == self._topic_id:
                    self._written.add(value)
                await asyncio.sleep(rng.uniform(0, 0.2))

    def _producer(self, environment: object) -> Producer:
        return Producer(
            self._cluster.bootstrap_servers,
            environment=environment,  # type: ignore[arg-type]
            max_block_ms=5_000,
            request_timeout_ms=5_000,
            delivery_timeout_ms=10_000,
        )
