"""Atomic transactions with lost, repeated and late requests, fencing and refusals.

A producer without sockets and a naive coordinator run random histories from a seed. The checker of the
soak run checks them. Tests without a safeguard prove that the histories detect its absence.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.harness.soak.history import FINAL_READER, Event
from tests.harness.soak.transaction_checker import Anomaly, Violation, check
from tests.support.transactions.accumulators import P0, P1, Outcome, cluster, drain, put_or_fail
from tests.support.transactions.naive_coordinator import NaiveCluster, sent_batch
from tests.support.transactions.producers import TransactionalProducerFixture
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.producer.produce_core import BatchResult
from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.transactions.transaction_lifecycle import Operation, TransactionState
from tidelog.clients.transactions.transaction_manager import TransactionManager
from tidelog.clients.transactions.transaction_requests import CoordinatorRequest
from tidelog.protocol.errors import ErrorCode, KafkaError

S = TransactionState
LEADERS = cluster({P0: 1, P1: 1})
GROUP = ConsumerGroupMetadata("harbour")
PARTITIONS = (P0, P1)
STEPS = 400
STEPS_TO_SETTLE = 400
SEEDS = range(60)


class TransactionalApplication:
    """One producer and the operations of its application."""

    def __init__(self, name: str, history: HistoryFixture) -> None:
        self.name = name
        self.history = history
        self.producer_fixture = TransactionalProducerFixture(is_v2=history.cluster.is_v2, retries=10_000)
        self.in_flight: CoordinatorRequest | None = None
        self.batches: list[ProducerBatch] = []
        self.number = -1
        self.records = 0
        self.offset_of = -1
        self.producer_fixture.manager.begin_init(is_v2=history.cluster.is_v2)

    @property
    def manager(self) -> TransactionManager:
        return self.producer_fixture.manager

    def add_event(self, f: str, type: str, value: object) -> None:
        self.history.events.append(Event(self.name, f, type, value))

    # --- the application ------------------------------------------------------------------

    def run_operation(self) -> None:
        """Perform an operation that is allowed in the present state."""
        manager, rng = self.manager, self.history.rng
        if manager.lifecycle.pending_operation is not None and manager.lifecycle.is_idle:
            self.take_result()
        elif manager.lifecycle.state is S.READY:
            manager.begin_transaction()
            self.number, self.records = self.number + 1, 0
        elif manager.lifecycle.state is S.ABORTABLE_ERROR:
            self.end(committed=False)
        elif manager.lifecycle.state is S.IN_TRANSACTION:
            choice = rng.random()
            if choice < 0.6:
                self.send(rng.choice(PARTITIONS))
            elif choice < 0.7:
                self.send_offset(rng.randrange(1_000))
            else:
                self.end(committed=choice < 0.9)

    def send(self, partition: object) -> None:
        index = PARTITIONS.index(partition)
        number, record = self.number, self.records
        self.records += 1
        self.add_event("send", "invoke", [number, index, record])
        outcome = put_or_fail(
            self.producer_fixture.core.accumulator,
            PARTITIONS[index],
            f"{self.name}/{number}/{record}".encode(),
            self.history.now_ms,
        )
        self.manager.add_partition(PARTITIONS[index])
        self.history.deliveries.append((self.name, number, index, record, outcome))

    def send_offset(self, offset: int) -> None:
        """Send an offset, at most once per transaction.

        In Kafka, too, a lost TxnOffsetCommit that arrives late may undo a second one.
        """
        if self.offset_of == self.number:
            return
        self.offset_of = self.number
        self.add_event("offset", "invoke", [self.number, 0, offset])
        self.manager.add_offsets(GROUP, {P0: OffsetAndMetadata(offset)})

    def end(self, *, committed: bool) -> None:
        self.add_event("commit" if committed else "abort", "invoke", self.number)
        if committed:
            self.manager.begin_commit(is_v2=self.producer_fixture.is_v2)
        else:
            self.manager.begin_abort(is_v2=self.producer_fixture.is_v2)

    def take_result(self) -> None:
        operation = self.manager.lifecycle.pending_operation
        try:
            self.manager.lifecycle.take_result()
        except KafkaError:
            return
        if operation is not Operation.INIT:
            self.add_event("commit" if operation is Operation.COMMIT else "abort", "ok", self.number)

    # --- the network ----------------------------------------------------------------------

    def drop(self) -> None:
        """Drop or fail batches, as the driver does before the next request."""
        if self.manager.lifecycle.is_rolling_back:
            self.producer_fixture.core.drop_unsent(KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED))
        if self.manager.lifecycle.is_fatal:
            self.producer_fixture.core.fail_all(KafkaError(ErrorCode.PRODUCER_FENCED))

    def call_coordinator(self, *, is_healed: bool) -> None:
        """Send a request to the coordinator, or decide the result of the one in flight."""
        self.drop()
        if self.in_flight is None:
            incomplete = bool(self.producer_fixture.core.accumulator.incomplete)
            self.in_flight = self.manager.next_request(has_incomplete=incomplete)
            return
        request, self.in_flight = self.in_flight, None
        chance = 1.0 if is_healed else self.history.rng.random()
        if chance < 0.15:
            self.history.late_requests.append(lambda: self.history.cluster.respond(request))
            self.manager.on_no_response(was_sent=True)
        elif chance < 0.3:
            self.history.cluster.respond(request)
            self.manager.on_no_response(was_sent=True)
        elif chance < 0.35:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self.manager.on_response(self.history.cluster.refuse(request, code), request.highest_version)
        else:
            self.manager.on_response(self.history.cluster.respond(request), request.highest_version)

    def produce(self, *, is_healed: bool) -> None:
        """Send batches, or decide the result of one in flight."""
        self.drop()
        history = self.history
        if not self.batches:
            history.now_ms += 300
            self.batches = drain(self.producer_fixture.core, LEADERS, history.now_ms)
            return
        batch = self.batches.pop(0)
        batch_to_send = sent_batch(batch)
        chance = 1.0 if is_healed else history.rng.random()
        if chance < 0.15:
            history.late_requests.append(lambda: history.cluster.produce(batch_to_send))
            result = BatchResult(ErrorCode.NETWORK_EXCEPTION)
        elif chance < 0.3:
            history.cluster.produce(batch_to_send)
            result = BatchResult(ErrorCode.NETWORK_EXCEPTION)
        elif chance < 0.34:
            result = BatchResult(ErrorCode.MESSAGE_TOO_LARGE)
        else:
            result = history.cluster.produce(batch_to_send)
        self.producer_fixture.core.on_result(batch, result, history.now_ms)


class HistoryFixture:
    """A cluster, its producers one after the other, and the history."""

    def __init__(self, seed: int, *, is_v2: bool) -> None:
        self.rng = random.Random(seed)
        self.cluster = NaiveCluster(is_v2=is_v2)
        self.events: list[Event] = []
        self.deliveries: list[tuple[str, int, int, int, Outcome]] = []
        self.late_requests: list[Callable[[], object]] = []
        self.now_ms = 0
        self.applications = [TransactionalApplication("p0", self)]

    def run(self) -> list[Violation]:
        for _ in range(STEPS):
            self._step()
        self._settle()
        return check(self.events + self._acknowledgements() + self._final())

    def _step(self) -> None:
        rng = self.rng
        if rng.random() < 0.008 or self.applications[-1].manager.lifecycle.is_fatal:
            self.applications.append(TransactionalApplication(f"p{len(self.applications)}", self))
        # Fenced producers continue sometimes.
        application = self.applications[-1] if rng.random() < 0.9 else rng.choice(self.applications)
        choice = rng.random()
        if choice < 0.4:
            application.run_operation()
        elif choice < 0.7:
            application.call_coordinator(is_healed=False)
        elif choice < 0.95:
            application.produce(is_healed=False)
        elif self.late_requests:
            self.late_requests.pop(rng.randrange(len(self.late_requests)))()

    def _settle(self) -> None:
        """Heal the network; the last producer must complete its operation and be ready to commit."""
        while self.late_requests:
            self.late_requests.pop()()
        application = self.applications[-1]
        for _ in range(STEPS_TO_SETTLE):
            if application.manager.lifecycle.is_fatal:
                application = TransactionalApplication(f"p{len(self.applications)}", self)
                self.applications.append(application)
            if (
                application.manager.lifecycle.pending_operation is not None
                and application.manager.lifecycle.is_idle
            ):
                application.take_result()
            if application.manager.lifecycle.state is S.READY:
                return
            if application.manager.lifecycle.can_abort:
                application.end(committed=False)
            application.call_coordinator(is_healed=True)
            application.produce(is_healed=True)
        raise AssertionError(
            f"the last producer does not become ready: {application.manager.lifecycle.state}"
        )

    def _acknowledgements(self) -> list[Event]:
        return [
            Event(name, "send", "ok", [number, index, record, outcome.result.offset])
            for name, number, index, record, outcome in self.deliveries
            if outcome.result is not None and outcome.result.offset >= 0
        ]

    def _final(self) -> list[Event]:
        """Return the committed records, after open transactions are aborted."""
        if self.cluster.is_open:
            self.cluster._finish(self.cluster.epoch + 1, committed=False)
        polls = []
        for index, partition in enumerate(PARTITIONS):
            records = []
            for offset, value in self.cluster.partitions[partition].committed:
                name, number, record = value.decode().split("/")
                records.append([offset, name, int(number), int(record)])
            polls.append(Event(FINAL_READER, "poll", "ok", [index, records]))
        if P0 in self.cluster.offsets:
            polls.append(Event(FINAL_READER, "committed", "ok", [0, self.cluster.offsets[P0]]))
        return polls


@pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])
def test_transactions_are_atomic_in_random_histories_and_every_producer_ends(is_v2: bool) -> None:
    committed = 0
    for seed in SEEDS:
        fixture = HistoryFixture(seed, is_v2=is_v2)
        violations = fixture.run()
        assert violations == [], f"seed {seed}"
        committed += sum(event.f == "commit" and event.type == "ok" for event in fixture.events)
    assert committed > len(SEEDS)


def first_anomalies(is_v2: bool) -> set[Anomaly]:
    """Return the anomalies of the first history that has any."""
    for seed in range(200):
        violations = HistoryFixture(seed, is_v2=is_v2).run()
        if violations:
            return {violation.anomaly for violation in violations}
    return set()


def test_without_a_new_epoch_a_late_request_ends_another_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # KAFKA-17754: transaction.version 2 prevents this at the broker; the producer prevents it for version 1.
    original = TransactionManager.on_no_response
    monkeypatch.setattr(
        TransactionManager, "on_no_response", lambda self, was_sent: original(self, was_sent=False)
    )
    assert first_anomalies(is_v2=False)
    assert not first_anomalies(is_v2=True)


@pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])
def test_a_commit_that_ignores_unacknowledged_records_is_detected(
    is_v2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_request = TransactionManager.next_request
    monkeypatch.setattr(
        TransactionManager,
        "next_request",
        lambda self, has_incomplete: next_request(self, has_incomplete=False),
    )
    with pytest.raises(AssertionError, match="READY -> ABORTABLE_ERROR"):
        first_anomalies(is_v2)


@pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])
def test_a_commit_after_a_refused_record_is_detected_as_partial(
    is_v2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransactionManager, "on_batch_failed", lambda *_, **__: None)
    assert Anomaly.INCOMPLETE in first_anomalies(is_v2)
