"""Reading the demo's topic back: with the bundled consumer, and with two clients of other authors.

The others read as a group of two: both members join before either reads, and both must get
partitions. Every reader ends when all records have come, or fails at its deadline.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from clients.consumer import Consumer
from tidelog.demo.comparison import Received

DEADLINE_S = 120.0
GROUP_SIZE = 2
POLL_RECORDS = 5_000

Advance = Callable[[int], None]


class ReadTooLittle(Exception):
    """Not all records came before the deadline."""


async def read_with_tidelog(servers: str, topic: str, expected: int, advance: Advance) -> Received:
    """All records with one consumer of our own, without a group."""
    received = Received()
    deadline = time.monotonic() + DEADLINE_S
    async with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in await consumer.partitions_for(topic)])
        while received.records < expected:
            polled = await consumer.poll(timeout_ms=500, max_records=POLL_RECORDS)
            for records in polled.values():
                received.take(0, ((r.partition, r.offset, r.key, r.value) for r in records))
                advance(len(records))
            _check_deadline(deadline, received, expected)
    return received


async def read_with_aiokafka(servers: str, topic: str, expected: int, advance: Advance) -> Received:
    """All records with a group of two aiokafka consumers."""
    from aiokafka import AIOKafkaConsumer

    received = Received()
    deadline = time.monotonic() + DEADLINE_S

    async def member(number: int) -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id="demo-aiokafka",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=4 * 1024 * 1024,
        )
        await consumer.start()
        try:
            while received.records < expected:
                polled = await consumer.getmany(timeout_ms=300, max_records=POLL_RECORDS)
                for records in polled.values():
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
    """All records, fewer once `stop` is set, with a group of two confluent-kafka consumers in threads."""
    received = Received()
    deadline = time.monotonic() + DEADLINE_S
    failures: list[BaseException] = []

    def member(number: int) -> None:
        try:
            _read_as_confluent_member(number, servers, topic, expected, received, advance, deadline, stop)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=member, args=(number,)) for number in range(GROUP_SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return received


def _read_as_confluent_member(
    number: int,
    servers: str,
    topic: str,
    expected: int,
    received: Received,
    advance: Advance,
    deadline: float,
    stop: threading.Event,
) -> None:
    from confluent_kafka import Consumer as ConfluentConsumer

    consumer = ConfluentConsumer(
        {"bootstrap.servers": servers, "group.id": "demo-confluent", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        while received.records < expected and not stop.is_set():
            records = []
            for message in consumer.consume(POLL_RECORDS, 0.3):
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    records.append((partition, offset, message.key(), message.value()))
            received.take(number, records)
            advance(len(records))
            _check_deadline(deadline, received, expected)
    finally:
        consumer.close()


def _check_deadline(deadline: float, received: Received, expected: int) -> None:
    if time.monotonic() > deadline:
        raise ReadTooLittle(f"{received.records} of {expected} records came in {DEADLINE_S:.0f} s")
