"""Consumers that read a topic in tasks, and record their partitions and records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.ids import TopicPartition

PARTITIONS = 6
OPTIONS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 100,
    "session_timeout_ms": 10_000,
}


async def fill(servers: str, topic: str, first: int, count: int) -> None:
    async with Producer(servers) as producer:
        for number in range(first, first + count):
            await producer.send(topic, str(number).encode(), partition=number % PARTITIONS)


class Log:
    """A listener that records its calls in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", sorted(partition.partition for partition in partitions)))

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("assigned", sorted(partition.partition for partition in partitions)))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", sorted(partition.partition for partition in partitions)))

    def owned_partitions(self) -> list[int]:
        held: set[int] = set()
        for kind, partitions in self.events:
            held = held | set(partitions) if kind == "assigned" else held - set(partitions)
        return sorted(held)


class Reader:
    """A member that polls in its own task."""

    def __init__(self, servers: str, topic: str, group: str, **options: Any) -> None:
        self.consumer = Consumer(servers, group_id=group, **(OPTIONS | options))
        self.log = Log()
        self.values: list[int] = []
        self._topic = topic

    @property
    def partitions(self) -> list[int]:
        return sorted(partition.partition for partition in self.consumer.assignment())

    async def __aenter__(self) -> Reader:
        await self.consumer.start()
        self.consumer.subscribe([self._topic], listener=self.log)
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.consumer.close()

    async def _read(self) -> None:
        while True:
            for records in (await self.consumer.poll(100)).values():
                self.values += [int(record.value or b"") for record in records]
