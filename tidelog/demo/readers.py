"""Reads the demo's topic with the bundled consumer and with two other clients.

The other clients read as a group of two; both members have partitions before they read. A reader ends when it
has all records, or fails at its deadline.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.base.count_text import count_text
from tidelog.clients.consumer.consumer import Consumer
from tidelog.demo.comparison import Received, Record

if TYPE_CHECKING:
    from confluent_kafka import Message

DEADLINE_S = 120.0
GROUP_SIZE = 2
POLL_RECORDS = 5_000

Advance = Callable[[int], None]


class ReadTooLittle(Exception):
    """A reader has not received all records before the deadline."""


class Members:
    """The members of a group that have partitions; safe for members in threads.

    Without it, the first member could read all records before the second one has joined.
    """

    def __init__(self) -> None:
        self._assigned: set[int] = set()
        self._lock = threading.Lock()
        self.complete = False

    def update(self, member: int, partitions: int) -> bool:
        """Record a member's number of partitions; return whether all members have had some at one time."""
        with self._lock:
            if partitions:
                self._assigned.add(member)
            else:
                self._assigned.discard(member)
            self.complete = self.complete or len(self._assigned) == GROUP_SIZE
            return self.complete


async def read_with_tidelog(servers: str, topic: str, expected: int, advance: Advance) -> Received:
    """Read all records with one bundled consumer, without a group."""
    received = Received()
    deadline = SYSTEM_CLOCK.monotonic_s() + DEADLINE_S
    async with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in await consumer.partitions_for(topic)])
        while received.records < expected:
            batches = await consumer.poll(timeout_ms=500, max_records=POLL_RECORDS)
            for records in batches.values():
                received.take(0, ((r.partition, r.offset, r.key, r.value) for r in records))
                advance(len(records))
            _check_deadline(deadline, received, expected)
    return received


async def read_with_aiokafka(servers: str, topic: str, expected: int, advance: Advance) -> Received:
    """Read all records with a group of two aiokafka consumers."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    received = Received()
    members = Members()
    deadline = SYSTEM_CLOCK.monotonic_s() + DEADLINE_S

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def __init__(self, number: int) -> None:
            self._number = number

        def on_partitions_revoked(self, revoked: object) -> None:
            members.update(self._number, 0)

        def on_partitions_assigned(self, assigned: Sized) -> None:
            members.update(self._number, len(assigned))

    async def member(number: int) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id="demo-aiokafka",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=4 * 1024 * 1024,
        )
        consumer.subscribe([topic], listener=Listener(number))
        await consumer.start()
        try:
            while not members.complete:
                await asyncio.sleep(0.05)
                _check_deadline(deadline, received, expected)
            while received.records < expected:
                batches = await consumer.getmany(timeout_ms=300, max_records=POLL_RECORDS)
                for records in batches.values():
                    received.take(number, ((r.partition, r.offset, r.key, r.value) for r in records))
                    advance(len(records))
                _check_deadline(deadline, received, expected)
        finally:
            await consumer.stop()

    async with asyncio.TaskGroup() as group:
        for number in range(GROUP_SIZE):
            group.create_task(member(number))
    return received


def read_with_confluent(
    servers: str, topic: str, expected: int, advance: Advance, stop: threading.Event
) -> Received:
    """Read all records, until `stop` is set, with a group of two confluent-kafka consumers in threads."""
    received = Received()
    members = Members()
    deadline = SYSTEM_CLOCK.monotonic_s() + DEADLINE_S

    def member(number: int) -> None:
        with closing(_read_as_confluent_member(number, servers, topic, members)) as polled:
            for records in polled:
                received.take(number, records)
                advance(len(records))
                if received.records >= expected or stop.is_set():
                    return
                _check_deadline(deadline, received, expected)

    with ThreadPoolExecutor(GROUP_SIZE) as pool:
        for done in [pool.submit(member, number) for number in range(GROUP_SIZE)]:
            done.result()
    return received


def _read_as_confluent_member(
    number: int, servers: str, topic: str, members: Members
) -> Generator[list[Record], None, None]:
    """Yield the records of each `consume` call, without end; closing the generator closes the consumer."""
    from confluent_kafka import Consumer as ConfluentConsumer
    from confluent_kafka import TopicPartition

    def on_assigned(consumer: ConfluentConsumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        if not members.update(number, len(partitions)):
            # Rebalances happen only in `consume`: it has to be called, and returns no records yet.
            consumer.pause(partitions)

    def on_revoked(consumer: ConfluentConsumer, partitions: list[TopicPartition]) -> None:
        members.update(number, 0)
        consumer.unassign()

    consumer = ConfluentConsumer(
        {"bootstrap.servers": servers, "group.id": "demo-confluent", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic], on_assign=on_assigned, on_revoke=on_revoked)
    try:
        while not members.complete:
            yield _records_of(consumer.consume(POLL_RECORDS, 0.05))
        consumer.resume(consumer.assignment())
        while True:
            yield _records_of(consumer.consume(POLL_RECORDS, 0.3))
    finally:
        consumer.close()


def _records_of(messages: list[Message]) -> list[Record]:
    records = []
    for message in messages:
        partition, offset = message.partition(), message.offset()
        if message.error() is None and partition is not None and offset is not None:
            records.append((partition, offset, message.key(), message.value()))
    return records


def _check_deadline(deadline: float, received: Received, expected: int) -> None:
    if SYSTEM_CLOCK.monotonic_s() > deadline:
        raise ReadTooLittle(
            f"received {received.records} of {count_text(expected, 'record')} in {DEADLINE_S:.0f} s"
        )
