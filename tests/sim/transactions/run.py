"""Runs seeds: `python -m tests.sim.transactions.run SEED [VERSION]` replays one.

Four producers, two of each transactional id, run transactions and fence each other while the coordinator
crashes and the network loses messages. Then the faults stop. In the end every transaction is committed or
aborted as a whole, no transaction is open, and no transactional id waits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.transactions.cluster import (
    TRANSACTION_VERSION_2,
    Coordinator,
    OnResponse,
    Partition,
    SimulatedCluster,
    Violation,
)
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.states import STATES_WITHOUT_TRANSACTION
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition

CHAOS_MS = 8_000
CALM_MS = 12_000
TIMEOUT_MS = 2_000
REQUEST_TIMEOUT_MS = 150
PARTITIONS = [TopicPartition("tides", index) for index in range(3)]

RETRIABLE_ERRORS = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    None,
}

Call = Callable[[OnResponse], None]
Steps = Generator[Call, object, object]


@dataclass
class Transaction:
    """A transaction as its producer knows it."""

    number: int
    partitions: list[int]
    outcome: str = "aborted"
    acknowledged: set[int] = field(default_factory=set)


class Outcome(NamedTuple):
    """The result of one seed; equal for equal seeds."""

    events: int
    committed: int
    aborted: int
    unknown: int
    crashes: int


class Producer:
    """One producer instance; restarts when it was fenced or gave up."""

    def __init__(self, run: SimulationRun, transactional_id: str) -> None:
        self._run = run
        self._id = transactional_id
        self._steps = self._run_transactions()
        self._continue(None)

    def _continue(self, response: object) -> None:
        """Continue with a response; None after a timeout."""
        try:
            call = self._steps.send(response)
        except StopIteration:
            return
        has_continued = False

        def continue_once(response: object) -> None:
            nonlocal has_continued
            if not has_continued:
                has_continued = True
                self._continue(response)

        cluster = self._run.cluster
        call(lambda response: cluster.deliver(lambda: continue_once(response), may_be_late=False))
        cluster.after(REQUEST_TIMEOUT_MS, lambda: continue_once(None))

    def _run_transactions(self) -> Steps:
        while not self._run.cluster.is_calm:
            producer = yield from self._request(lambda respond: self._run.coordinator.init(self._id, respond))
            if not isinstance(producer, ProducerIdAndEpoch):
                continue
            while isinstance(producer, ProducerIdAndEpoch) and not self._run.cluster.is_calm:
                producer = yield from self._transaction(producer)
        return None

    def _request(self, request: Call, *, may_be_late: bool = True) -> Steps:
        """Retry a request until its response is final, or a few times."""
        cluster = self._run.cluster
        for _ in range(30):
            response = yield lambda respond: cluster.deliver(
                lambda: request(respond), may_be_late=may_be_late
            )
            if response not in RETRIABLE_ERRORS:
                return response
            yield lambda respond: cluster.after(cluster.rng.randint(5, 40), lambda: respond(ErrorCode.NONE))
        return None

    def _transaction(self, producer: ProducerIdAndEpoch) -> Steps:
        """Run a transaction; return the producer's id and epoch after it, or None if it must restart."""
        run, version = self._run, self._run.version
        transaction = run.new_transaction(self._id)
        is_good = True
        for index in transaction.partitions:
            response = yield from self._write(producer, transaction, index)
            if response is ErrorCode.INVALID_TXN_STATE:
                raise Violation(f"a correct client gets {response.name} in {transaction}")
            if response is ErrorCode.NONE:
                transaction.acknowledged.add(index)
            elif response in (
                ErrorCode.INVALID_PRODUCER_EPOCH,
                ErrorCode.PRODUCER_FENCED,
            ) or run.cluster.chance(0.3):
                return None
            else:
                is_good = False
        if run.cluster.chance(0.05):
            return None
        is_commit = is_good and run.cluster.rng.random() < 0.7
        if is_commit:
            transaction.outcome = "unknown"
        response = yield from self._request(
            lambda respond: run.coordinator.end(self._id, producer, is_commit, version, respond),
            may_be_late=version >= TRANSACTION_VERSION_2,
        )
        if not isinstance(response, ProducerIdAndEpoch):
            return None
        if is_commit:
            transaction.outcome = "committed"
        return response if version >= TRANSACTION_VERSION_2 else producer

    def _write(self, producer: ProducerIdAndEpoch, transaction: Transaction, index: int) -> Steps:
        run, version = self._run, self._run.version
        if version < TRANSACTION_VERSION_2:
            error = yield from self._request(
                lambda respond: run.coordinator.add(self._id, producer, PARTITIONS[index], version, respond)
            )
            if error is not ErrorCode.NONE:
                return error
        partition = run.partitions[index]
        response = yield from self._request(
            lambda respond: partition.produce(producer, transaction.number, version, respond)
        )
        return response


class SimulationRun:
    """The cluster and the producers of one seed."""

    def __init__(self, seed: int, version: int) -> None:
        self.cluster = SimulatedCluster(seed)
        self.version = version
        self.coordinator = Coordinator(self.cluster, version, TIMEOUT_MS)
        self.partitions = [Partition(self.cluster, name, self.coordinator) for name in PARTITIONS]
        self.coordinator.partitions.update(zip(PARTITIONS, self.partitions, strict=True))
        self.transactions: list[Transaction] = []
        self._next = {"id-0": 0, "id-1": 1}
        for transactional_id in ("id-0", "id-1") * 2:
            Producer(self, transactional_id)
        self.cluster.after(500, self._crash)

    def _crash(self) -> None:
        if not self.cluster.is_calm:
            self.coordinator.crash(self.cluster.rng.randint(1, 200))
            self.cluster.after(self.cluster.rng.randint(20, 1_200), self._crash)

    def new_transaction(self, transactional_id: str) -> Transaction:
        number = self._next[transactional_id]
        self._next[transactional_id] += 2
        partitions = self.cluster.rng.sample(
            range(len(PARTITIONS)), self.cluster.rng.randint(1, len(PARTITIONS))
        )
        transaction = Transaction(number, partitions)
        self.transactions.append(transaction)
        return transaction

    def check(self) -> None:
        for partition in self.partitions:
            if partition.open_records:
                raise Violation(f"{partition.name}: transactions {partition.open_records} hang")
        for transaction in self.transactions:
            number = transaction.number
            visible = {index for index, each in enumerate(self.partitions) if each.outcomes.get(number)}
            whole = set(transaction.partitions)
            allowed: dict[str, list[set[int]]] = {
                "committed": [whole],
                "aborted": [set()],
                "unknown": [whole, set()],
            }
            if visible not in allowed[transaction.outcome]:
                raise Violation(f"{transaction} is read in {visible}")
        assert self.coordinator.core is not None
        for entry in self.coordinator.core.registry:
            if (
                entry.is_pending
                or entry.committed_metadata is None
                or entry.committed_metadata.state not in STATES_WITHOUT_TRANSACTION
            ):
                raise Violation(f"{entry.committed_metadata} is still pending")


def run_seed(seed: int, *, version: int = TRANSACTION_VERSION_2) -> Outcome:
    """Run one seed; Violation names the seed."""
    run = SimulationRun(seed, version)
    try:
        run.cluster.run_until(CHAOS_MS)
        run.cluster.is_calm = True
        run.cluster.run_until(CHAOS_MS + CALM_MS)
        run.check()
    except AssertionError as error:
        raise Violation(f"seed {seed}, version {version}: {error}") from error
    outcomes = [transaction.outcome for transaction in run.transactions]
    return Outcome(
        run.cluster.events,
        outcomes.count("committed"),
        outcomes.count("aborted"),
        outcomes.count("unknown"),
        run.coordinator.crashes,
    )


if __name__ == "__main__":
    print(run_seed(int(sys.argv[1]), version=int(sys.argv[2]) if len(sys.argv) > 2 else 2))
