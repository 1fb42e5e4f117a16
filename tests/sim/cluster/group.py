"""A consumer group that reads while faults happen. It must process each record at least once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.violation import Violation
from tidelog.clients.consumer.consumer import Consumer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.simulation import Simulation

GROUP = "readers"


class GroupLedger:
    """The records that the members of the group have processed."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, set[int]] = {}

    def check(self, final: dict[TopicPartition, dict[int, bytes]]) -> None:
        """Require that each record was processed. Errors: Violation."""
        for partition, values in final.items():
            missing = values.keys() - self._offsets(partition)
            if missing:
                raise Violation(f"the group has not processed {partition} offset {min(missing)}")

    def add(self, partition: TopicPartition, offsets: Iterable[int]) -> None:
        """Add processed records."""
        self.processed.setdefault(partition, set()).update(offsets)

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
                    default_api_timeout_ms=10_000,
                    request_timeout_ms=5_000,
                ) as consumer:
                    consumer.subscribe([self._topic])
                    while not self.is_stopped:
                        for partition, records in (await consumer.poll(timeout_ms=500)).items():
                            self._ledger.add(partition, (record.offset for record in records))
                        await consumer.commit()
            except KafkaError:
                await asyncio.sleep(0.5)
