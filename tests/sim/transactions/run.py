"""Runs seeds: `python -m tests.sim.transactions.run SEED [VERSION]` replays one.

Four producers, two of each transactional id, go on for a while under crashes and a bad network, fencing each
other; then all is calm. In the end every transaction is whole or not there, none is open, and no id waits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.transactions.cluster import (
    TRANSACTION_VERSION_2,
    Answer,
    Coordinator,
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

_AGAIN = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    None,
}

Call = Callable[[Answer], None]
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

    def __init__(self, run: Run, transactional_id: str) -> None:
        self._run = run
        self._id = transactional_id
        self._steps = self._live()
        self._step(None)

    def _step(self, answer: object) -> None:
        """Continue with a response; None if none arrived in time."""
        try:
            call = self._steps.send(answer)
        except StopIteration:
            return
        is_over: list[bool] = []

        def once(found: object) -> None:
            if not is_over:
                is_over.append(True)
                self._step(found)

        world = self._run.world
        call(lambda found: world.deliver(lambda: once(found), may_be_late=False))
        world.after(REQUEST_TIMEOUT_MS, lambda: once(None))

    def _live(self) -> Steps:
        while not self._run.world.is_calm:
            producer = yield from self._until(lambda answer: self._run.coordinator.init(self._id, answer))
            if not isinstance(producer, ProducerIdAndEpoch):
                continue
            while isinstance(producer, ProducerIdAndEpoch) and not self._run.world.is_calm:
                producer = yield from self._transaction(producer)
        return None

    def _until(self, request: Call, *, may_be_late: bool = True) -> Steps:
        """Retry a request until its response is final, or a few times."""
        world = self._run.world
        for _ in range(30):
            found = yield lambda answer: world.deliver(lambda: request(answer), may_be_late=may_be_late)
            if found not in _AGAIN:
                return found
            yield lambda answer: world.after(world.rng.randint(5, 40), lambda: answer(ErrorCode.NONE))
        return None

    def _transaction(self, producer: ProducerIdAndEpoch) -> Steps:
        """The producer's id and epoch after it; something else when it has to begin anew."""
        run, version = self._run, self._run.version
        transaction = run.new_transaction(self._id)
        is_good = True
        for index in transaction.partitions:
            found = yield from self._write(producer, transaction, index)
            if found is ErrorCode.INVALID_TXN_STATE:
                raise Violation(f"a legal client gets {found.name} in {transaction}")
            if found is ErrorCode.NONE:
                transaction.acknowledged.add(index)
            elif found in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED) or run.world.chance(
                0.3
            ):
                return None
            else:
                is_good = False
        if run.world.chance(0.05):
            return None
        is_commit = is_good and run.world.rng.random() < 0.7
        if is_commit:
            transaction.outcome = "unknown"
        found = yield from self._until(
            lambda answer: run.coordinator.end(self._id, producer, is_commit, version, answer),
            may_be_late=version >= TRANSACTION_VERSION_2,
        )
        if not isinstance(found, ProducerIdAndEpoch):
            return None
        if is_commit:
            transaction.outcome = "committed"
        return found if version >= TRANSACTION_VERSION_2 else producer

    def _write(self, producer: ProducerIdAndEpoch, transaction: Transaction, index: int) -> Steps:
        run, version = self._run, self._run.version
        if version < TRANSACTION_VERSION_2:
            added = yield from self._until(
                lambda answer: run.coordinator.add(self._id, producer, PARTITIONS[index], version, answer)
            )
            if added is not ErrorCode.NONE:
                return added
        partition = run.partitions[index]
        found = yield from self._until(
            lambda answer: partition.produce(producer, transaction.number, version, answer)
        )
        return found


class Run:
    """One seed."""

    def __init__(self, seed: int, version: int) -> None:
        self.world = SimulatedCluster(seed)
        self.version = version
        self.coordinator = Coordinator(self.world, version, TIMEOUT_MS)
        self.partitions = [Partition(self.world, name, self.coordinator) for name in PARTITIONS]
        self.coordinator.partitions.update(zip(PARTITIONS, self.partitions, strict=True))
        self.transactions: list[Transaction] = []
        self._next = {"id-0": 0, "id-1": 1}
        for transactional_id in ("id-0", "id-1") * 2:
            Producer(self, transactional_id)
        self.world.after(500, self._crash)

    def _crash(self) -> None:
        if not self.world.is_calm:
            self.coordinator.crash(self.world.rng.randint(1, 200))
            self.world.after(self.world.rng.randint(20, 1_200), self._crash)

    def new_transaction(self, transactional_id: str) -> Transaction:
        number = self._next[transactional_id]
        self._next[transactional_id] += 2
        partitions = self.world.rng.sample(range(len(PARTITIONS)), self.world.rng.randint(1, len(PARTITIONS)))
        transaction = Transaction(number, partitions)
        self.transactions.append(transaction)
        return transaction

    def check(self) -> None:
        for partition in self.partitions:
            if partition.open_records:
                raise Violation(f"{partition.name}: transactions {partition.open_records} hang")
        for transaction in self.transactions:
            number = transaction.number
            visible = {index for index, each in enumerate(self.partitions) if each.ended.get(number)}
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
                raise Violation(f"{entry.committed_metadata} has not come to rest")


def run_seed(seed: int, *, version: int = TRANSACTION_VERSION_2) -> Outcome:
    """Run one seed; Violation names the seed."""
    run = Run(seed, version)
    try:
        run.world.run_until(CHAOS_MS)
        run.world.is_calm = True
        run.world.run_until(CHAOS_MS + CALM_MS)
        run.check()
    except AssertionError as error:
        raise Violation(f"seed {seed}, version {version}: {error}") from error
    outcomes = [transaction.outcome for transaction in run.transactions]
    return Outcome(
        run.world.events,
        outcomes.count("committed"),
        outcomes.count("aborted"),
        outcomes.count("unknown"),
        run.coordinator.crashes,
    )


if __name__ == "__main__":
    print(run_seed(int(sys.argv[1]), version=int(sys.argv[2]) if len(sys.argv) > 2 else 2))
