"""Copies one topic to another during faults, and checks the copy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, NamedTuple

from tests.harness.soak.copiers import SHORT_TIMEOUTS, Copier, copy_of
from tests.harness.soak.history import FINAL_READER, Event
from tests.harness.soak.transaction_checker import check
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

SOURCE, TARGET = "source", "target"
PARTITIONS = 3
_COPIERS = 2
_DELIVERY_MS = 60_000


class CopiedRecord(NamedTuple):
    """A record of the target: its position, its producer and its transaction."""

    offset: int
    value: bytes
    writer: tuple[str, int, int]


class Copies:
    """Writes `records` to the source in parts with pauses, copies them, and checks the copies.

    The topics SOURCE and TARGET with PARTITIONS partitions exist and are empty.
    """

    def __init__(
        self,
        clients: ClientSettings,
        records: int,
        *,
        at_a_time: int,
        pause_s: float,
        records_per_transaction: int,
    ) -> None:
        self.clients = clients
        self.events: list[Event] = []
        self._each = records // PARTITIONS
        self._at_a_time = at_a_time
        self._pause_s = pause_s
        self._copiers = [
            Copier(f"copier-{number}", clients, SOURCE, TARGET, self.events, records_per_transaction)
            for number in range(_COPIERS)
        ]

    async def run_during(self, work: Awaitable[None], deadline_s: float) -> list[str]:
        """Write and copy during `work` and until all records are copied; return the problems.

        Raise TimeoutError if the copy is incomplete `deadline_s` after `work`.
        """
        tasks = [asyncio.create_task(copier.run()) for copier in self._copiers]
        try:
            await asyncio.gather(self._feed(), work)
            async with asyncio.timeout(deadline_s):
                await self._wait_until_complete()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return await self._find_problems()

    async def _feed(self) -> None:
        async with Producer(
            **self.clients.tidelog, delivery_timeout_ms=_DELIVERY_MS, **SHORT_TIMEOUTS
        ) as producer:
            for number in range(self._each):
                for partition in range(PARTITIONS):
                    await producer.send(SOURCE, b"%d" % number, partition=partition)
                if number % self._at_a_time == 0:
                    await asyncio.sleep(self._pause_s)

    async def _wait_until_complete(self) -> None:
        """Wait by the groups' offsets: complete reads of the target would slow the copiers."""
        while True:
            with suppress(KafkaError):
                if await self._committed_offsets() == dict.fromkeys(range(PARTITIONS), self._each):
                    return
            await asyncio.sleep(0.2)

    async def _committed_offsets(self) -> dict[int, int]:
        options: dict[str, Any] = {"group_id": Copier.GROUP, "isolation_level": "read_committed"}
        async with Consumer(**self.clients.tidelog, **options, **SHORT_TIMEOUTS) as consumer:
            topic_partitions = [TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
            offsets = await consumer.committed(topic_partitions)
        return {key.partition: offset.offset for key, offset in offsets.items() if offset is not None}

    async def _read_copies(self) -> dict[int, list[CopiedRecord]]:
        """Read all committed records of the target."""
        copies: dict[int, list[CopiedRecord]] = {partition: [] for partition in range(PARTITIONS)}
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with Consumer(**self.clients.tidelog, **options, **SHORT_TIMEOUTS) as consumer:
            topic_partitions = [TopicPartition(TARGET, partition) for partition in copies]
            consumer.assign(topic_partitions)
            ends = await consumer.end_offsets(topic_partitions)
            while any([await consumer.position(key) < end for key, end in ends.items()]):
                for topic_partition, records in (await consumer.poll(500)).items():
                    for record in records:
                        name, transaction, number = (record.headers[0][1] or b"").decode().split("/")
                        writer = (name, int(transaction), int(number))
                        one = CopiedRecord(record.offset, record.value or b"", writer)
                        copies[topic_partition.partition].append(one)
        return copies

    async def _find_problems(self) -> list[str]:
        copies, committed_offsets = await self._read_copies(), await self._committed_offsets()
        final = [
            Event(FINAL_READER, "poll", "ok", [partition, [[one.offset, *one.writer] for one in records]])
            for partition, records in copies.items()
        ]
        final += [Event(FINAL_READER, "committed", "ok", [*entry]) for entry in committed_offsets.items()]
        problems = [f"{one.anomaly.value}: {one.text}" for one in check(self.events + final)]
        expected = [copy_of(b"%d" % number) for number in range(self._each)]
        for partition, records in copies.items():
            values = [one.value for one in records]
            if values != expected:
                first = next(
                    (n for n, pair in enumerate(zip(values, expected, strict=False)) if pair[0] != pair[1]),
                    min(len(values), len(expected)),
                )
                problems.append(
                    f"partition {partition} has {len(values)} of {len(expected)} records, wrong from {first}"
                )
        return problems
