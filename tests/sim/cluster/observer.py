"""Clients that observe what must never move backwards: ends of partitions, committed offsets, stable records.

One observer reads the end of each partition (ListOffsets) and the committed offsets of the group
(OffsetFetch), one request after the other. The other one reads the topic of the transactions with
read_committed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tests.sim.cluster import transactions
from tests.sim.cluster.group import GROUP, GroupLedger
from tests.sim.cluster.plan import Plan
from tests.sim.cluster.violation import Violation
from tidelog.clients.consumer.consumer import Consumer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.simulation import Simulation

OBSERVE_EVERY_S: Final = 0.3
RETRY_S: Final = 0.5
TIMEOUT_MS: Final = 5_000


class OffsetObserver:
    """Observes offsets until `is_stopped`; its task ends with a Violation if one decreases."""

    def __init__(self, simulation: Simulation, plan: Plan, group: GroupLedger, topic: str) -> None:
        self._servers = simulation.cluster.bootstrap_servers
        self._group = group if plan.group_members else None
        self._partitions = [TopicPartition(topic, number) for number in range(plan.partitions)]
        self._process = simulation.cluster.client("observer")
        self._ends: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self.is_stopped = False
        self.task = self._process.start(self._run())

    async def _run(self) -> None:
        while not self.is_stopped:
            try:
                async with _consumer(self._process, self._servers, group_id=GROUP) as consumer:
                    while not self.is_stopped:
                        await self._observe_ends(consumer)
                        await self._observe_commits(consumer)
                        await asyncio.sleep(OBSERVE_EVERY_S)
            except KafkaError:
                await asyncio.sleep(RETRY_S)

    async def _observe_ends(self, consumer: Consumer) -> None:
        for partition, end in (await consumer.end_offsets(self._partitions)).items():
            earlier = self._ends.get(partition, 0)
            if end < earlier:
                raise Violation(f"the end of {partition} decreased from {earlier} to {end} for a client")
            self._ends[partition] = end

    async def _observe_commits(self, consumer: Consumer) -> None:
        if self._group is None:
            return
        acknowledged = dict(self._group.committed)
        for partition, committed in (await consumer.committed(self._partitions)).items():
            offset = -1 if committed is None else committed.offset
            earlier = max(self._committed.get(partition, -1), acknowledged.get(partition, -1))
            if offset < earlier:
                raise Violation(f"the committed offset of {partition} decreased from {earlier} to {offset}")
            self._committed[partition] = offset


class StableReader:
    """Reads transactions with read_committed until `is_stopped`, to be compared with a last read."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self._servers = simulation.cluster.bootstrap_servers
        self._partitions = [TopicPartition(transactions.TOPIC, number) for number in range(plan.partitions)]
        self._process = simulation.cluster.client("stable-reader")
        self.read: dict[TopicPartition, dict[int, bytes]] = {each: {} for each in self._partitions}
        self.is_stopped = False
        self.task = self._process.start(self._run())

    async def _run(self) -> None:
        while not self.is_stopped:
            try:
                async with _consumer(
                    self._process, self._servers, isolation_level="read_committed"
                ) as consumer:
                    consumer.assign(self._partitions)
                    for partition, values in self.read.items():
                        consumer.seek(partition, max(values, default=-1) + 1)
                    while not self.is_stopped:
                        for partition, records in (await consumer.poll(timeout_ms=500)).items():
                            self.read[partition].update(
                                (record.offset, record.value or b"") for record in records
                            )
            except KafkaError:
                await asyncio.sleep(RETRY_S)

    def check(self, committed: dict[TopicPartition, dict[int, bytes]]) -> None:
        """Compare with all committed records, up to the last one that was read. Errors: Violation."""
        for partition, values in self.read.items():
            end = max(values, default=-1)
            expected = {offset: value for offset, value in committed[partition].items() if offset <= end}
            if values != expected:
                offset = min(values.items() ^ expected.items())[0]
                raise Violation(
                    f"{partition} offset {offset} was {values.get(offset)!r} with read_committed during the "
                    f"faults, and is {expected.get(offset)!r} after them"
                )


def _consumer(process: Process, servers: str, **settings: str) -> Consumer:
    return Consumer(
        servers,
        environment=process.environment,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        default_api_timeout_ms=2 * TIMEOUT_MS,
        request_timeout_ms=TIMEOUT_MS,
        **settings,  # type: ignore[arg-type]
    )
