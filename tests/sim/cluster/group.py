"""A consumer group that reads while faults happen. It must process each record at least once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.violation import Violation
from tidelog.clients.consumer.consumer import Consumer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.simulation import Simulation

GROUP = "readers"
PROCESSING_S_MAX: Final = 0.3
CLASSIC_SESSION_MS: Final = 6_000
"""The shortest session that brokers allow by default; the consumer protocol ignores it."""
CONSUMER_SESSION: Final = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""The settings of brokers for the same session in the consumer protocol."""


class GroupLedger:
    """The records that the members of the group have processed."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, set[int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        """The highest offset of each partition whose commit was acknowledged."""

    def check(self, final: dict[TopicPartition, dict[int, bytes]]) -> None:
        """Require that each record was processed. Errors: Violation."""
        for partition, values in final.items():
            missing = values.keys() - self._offsets(partition)
            if missing:
                raise Violation(f"the group has not processed {partition} offset {min(missing)}")

    def add(self, partition: TopicPartition, offsets: Iterable[int]) -> None:
        """Add processed records."""
        self.processed.setdefault(partition, set()).update(offsets)

    def add_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Add an acknowledged commit."""
        for partition, offset in offsets.items():
            self.committed[partition] = max(offset, self.committed.get(partition, -1))

    def has_processed(self, final: dict[TopicPartition, dict[int, bytes]]) -> bool:
        """Return whether each record was processed."""
        return all(values.keys() <= self._offsets(partition) for partition, values in final.items())

    def _offsets(self, partition: TopicPartition) -> set[int]:
        return self.processed.get(partition, set())


class GroupMember:
    """Polls, processes and commits until `is_stopped`, and joins again after an error."""

    def __init__(
        self, simulation: Simulation, plan: Plan, ledger: GroupLedger, name: str, topic: str
    ) -> None:
        self._servers = simulation.cluster.bootstrap_servers
        self._plan = plan
        self._ledger = ledger
        self._topic = topic
        self._process = simulation.cluster.client(name)
        self.is_stopped = False
        self.task = self._process.start(self._run())

    async def _run(self) -> None:
        while not self.is_stopped:
            try:
                async with Consumer(
                    self._servers,
                    environment=self._process.environment,
                    group_id=GROUP,
                    group_protocol=self._plan.group_protocol,
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,
                    session_timeout_ms=CLASSIC_SESSION_MS,
                    heartbeat_interval_ms=CLASSIC_SESSION_MS // 6,
                    default_api_timeout_ms=10_000,
                    request_timeout_ms=5_000,
                ) as consumer:
                    consumer.subscribe([self._topic])
                    while not self.is_stopped:
                        polled = await consumer.poll(timeout_ms=500)
                        for partition, records in polled.items():
                            self._ledger.add(partition, (record.offset for record in records))
                        # The commit contains the positions of this moment.
                        ends = {partition: records[-1].offset + 1 for partition, records in polled.items()}
                        await consumer.commit()
                        self._ledger.add_commit(ends)
                        await asyncio.sleep(self._process.rng.uniform(0, PROCESSING_S_MAX))
            except KafkaError:
                await asyncio.sleep(0.5)
