"""A workload of transactions: each is committed or aborted, and must be visible completely or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import Enum

from tests.sim.cluster.plan import Plan
from tests.sim.cluster.violation import Violation
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.simulation.simulation import Simulation

TOPIC = "transfers"
RECORDS_MAX = 5
TIMEOUT_MS = 10_000
ABORTED_SHARE = 0.3
PAUSED_SHARE = 0.3
"""The share of records after which the producer waits; an abort finds most others still unsent."""
PAUSE_S_MAX = 0.5


class End(Enum):
    """How a transaction ended, as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "its producer got an error or no response"


class TransactionLedger:
    """The transactions of one run. A value is `<transaction>/<number of its records>`."""

    def __init__(self) -> None:
        self.ends: dict[bytes, End] = {}

    def check(self, values_read: dict[TopicPartition, dict[int, bytes]]) -> None:
        """Compare with all records that a consumer with read_committed has read. Errors: Violation."""
        counts = Counter(value for values in values_read.values() for value in values.values())
        read_of = Counter(value.rpartition(b"/")[0] for value in counts.elements())
        sizes = {value.rpartition(b"/")[0]: int(value.rpartition(b"/")[2]) for value in counts}
        for transaction, count in read_of.items():
            if self.ends.get(transaction) is End.ABORTED:
                raise Violation(f"{count} records of the aborted transaction {transaction!r} were read")
            if count != sizes[transaction]:
                raise Violation(f"{count} of {sizes[transaction]} records of {transaction!r} were read")
        for transaction, end in self.ends.items():
            if end is End.COMMITTED and transaction not in read_of:
                raise Violation(f"the committed transaction {transaction!r} was not read")


class TransactionalProducer:
    """Writes transactions until `is_stopped`, and begins again after an error."""

    def __init__(self, simulation: Simulation, plan: Plan, ledger: TransactionLedger, name: str) -> None:
        self._servers = simulation.cluster.bootstrap_servers
        self._plan = plan
        self._ledger = ledger
        self._name = name
        self._process = simulation.cluster.client(name)
        self._number = 0
        self.is_stopped = False
        self.task = self._process.start(self._run())

    async def _run(self) -> None:
        while not self.is_stopped:
            try:
                async with Producer(
                    self._servers,
                    environment=self._process.environment,
                    transactional_id=self._name,
                    transaction_timeout_ms=TIMEOUT_MS,
                    max_block_ms=TIMEOUT_MS,
                    request_timeout_ms=5_000,
                    delivery_timeout_ms=30_000,
                ) as producer:
                    await producer.init_transactions()
                    while not self.is_stopped:
                        await self._perform_transaction(producer)
                        await asyncio.sleep(self._process.rng.uniform(0, 4 * self._plan.pause_of_producers_s))
                    await self._abandon_transaction(producer)
            except KafkaError:
                await asyncio.sleep(0.5)

    async def _abandon_transaction(self, producer: Producer) -> None:
        """Leave the last transaction open: the coordinator has to abort it."""
        transaction = self._next_transaction()
        self._ledger.ends[transaction] = End.ABORTED
        producer.begin_transaction()
        await producer.send_and_wait(TOPIC, b"%s/2" % transaction, partition=0)
        await producer.close(timeout_ms=0)

    def _next_transaction(self) -> bytes:
        self._number += 1
        return b"%s-%d" % (self._name.encode(), self._number)

    async def _perform_transaction(self, producer: Producer) -> None:
        rng = self._process.rng
        transaction = self._next_transaction()
        count = 1 + rng.randrange(RECORDS_MAX)
        # Until its producer has the response to the end, the end is unknown.
        self._ledger.ends[transaction] = End.UNKNOWN
        producer.begin_transaction()
        for _ in range(count):
            partition = rng.randrange(self._plan.partitions)
            await producer.send(TOPIC, b"%s/%d" % (transaction, count), partition=partition)
            if rng.random() < PAUSED_SHARE:
                await asyncio.sleep(rng.uniform(0, PAUSE_S_MAX))
        if rng.random() < ABORTED_SHARE:
            self._ledger.ends[transaction] = End.ABORTED
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
            self._ledger.ends[transaction] = End.COMMITTED
