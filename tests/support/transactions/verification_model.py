"""A producer of two transactions, a partition and their coordinator, with all messages in an unordered set.

The coordinator is the real core, and the partition is the real producer state of a log. `steps` returns the
possible next events: any message may be delivered, in any order. `explore` runs every order.

The client is correct: it writes one batch per transaction, sends it again after a retriable error, and ends
the transaction when the batch is acknowledged. A `Fault` may let it abandon a request, which then stays in
flight.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import astuple, dataclass, field
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from tests.support.batches.producer_headers import data_header, marker_header
from tests.support.configs import PRODUCER_ID_EXPIRATION_MS
from tests.support.transactions.coordinator import A, TransactionCoordinatorFixture
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.states import STATES_WITHOUT_TRANSACTION
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

NOW_MS = 0
TRANSACTION_VERSION_2 = 2

REPEATED_VERIFICATION = "the client produces again, because a marker ended the verification"


class Violation(AssertionError):
    """A violated invariant."""


class Fault(Enum):
    """A fault that may occur once in a run, at any possible time."""

    THE_CLIENT_SENDS_AGAIN = auto()
    THE_CLIENT_ABORTS_EARLY = auto()
    A_MARKER_IS_SENT_AGAIN = auto()
    THE_COORDINATOR_FAILS_OVER = auto()


class Scenario(NamedTuple):
    """The transaction.version of each transaction, whether markers have it, and the possible faults.

    With `origin` COORDINATOR, records are offset commits of groups, which have no sequences.
    `ends_are_certain`: each record is ended by the marker of its own transaction. Below version 2 a repeated
    marker may end the next transaction, also in Kafka (KAFKA-17754).
    """

    versions: tuple[int, int]
    faults: tuple[Fault, ...] = ()
    markers_carry_version: bool = True
    ends_are_certain: bool = True
    origin: AppendOrigin = AppendOrigin.CLIENT


@dataclass(eq=False)
class ProduceAttempt:
    """One Produce request; `is_abandoned`: the client does not wait for its response."""

    name: str
    number: int
    producer: ProducerIdAndEpoch
    header: BatchHeader
    version: int
    is_abandoned: bool = False


@dataclass
class AppendedRecord:
    """One record in the log of the partition, and the transaction whose marker ended it."""

    number: int
    ended_by: int | None = None
    is_commit: bool = False


class Step(NamedTuple):
    """A possible next event; `carries` is the verification in its response, if any."""

    name: str
    run: Callable[[], None]
    carries: Verification | None = None


@dataclass(eq=False)
class ScenarioRun:
    """One run of a scenario; `outcomes` has the result of each transaction as its client knows it."""

    scenario: Scenario
    outcomes: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.coordinator = TransactionCoordinatorFixture(
            transaction_version=max(self.scenario.versions)
        ).start()
        disk = CrashFileSystem()
        disk.makedirs("/a-0")
        self.state = ProducerStateManager(A, disk, "/a-0", PRODUCER_ID_EXPIRATION_MS)
        self.log: list[AppendedRecord] = []
        self.faults = list(self.scenario.faults)
        self._bag: list[Step] = []
        self._waiting: list[Step] = []
        """Steps of the client that wait until the coordinator has completed the previous transaction."""
        self._transaction_of: dict[int, int] = {}
        """The number of the transaction of each marking, by the identity of the marking."""
        self._markers_in_flight: list[PreparedTransaction] = []
        self._sent: ProduceAttempt | None = None
        self._coordinator_epoch = 1
        self._number = 0
        self._produces = 0
        self.producer = self.coordinator.init()
        self._begin(0)

    # Possible events

    def steps(self) -> list[Step]:
        """Return all possible next events in a fixed order."""
        return [
            *self._bag,
            *(Step(fault.name, partial(self._inject, fault)) for fault in self._possible_faults()),
        ]

    def _possible_faults(self) -> Iterator[Fault]:
        for fault in self.faults:
            is_client = fault in (Fault.THE_CLIENT_SENDS_AGAIN, Fault.THE_CLIENT_ABORTS_EARLY)
            if is_client and self._sent is None:
                continue
            if fault is Fault.A_MARKER_IS_SENT_AGAIN and not self._markers_in_flight:
                continue
            if self._bag:
                yield fault

    def run(self, step: Step) -> None:
        """Perform one event."""
        if step in self._bag:
            self._bag.remove(step)
        step.run()
        self.coordinator.tick()
        if not self.coordinator.state.is_prepared:
            waiting, self._waiting = self._waiting, []
            self._bag += waiting

    def fingerprint(self) -> Hashable:
        """Return a value that is equal for states with the same future."""
        producer_id = self.producer.producer_id
        entry = self.state.producers.get(producer_id)
        current = self.state._verifications.get(producer_id)
        bag = sorted((step.name, step.carries is not None and step.carries is current) for step in self._bag)
        return (
            tuple(bag),
            tuple(step.name for step in self._waiting),
            tuple(self.faults),
            (self._number, self.producer, self._sent and self._sent.name, tuple(self.outcomes.items())),
            (self.coordinator.metadata, self._coordinator_epoch),
            entry and (entry.producer_epoch, entry.coordinator_epoch, tuple(entry.batches)),
            current and (current.epoch, current.lowest_sequence, current.supports_epoch_bump),
            tuple(astuple(record) for record in self.log),
        )

    def check_end(self) -> None:
        """Check the final state: every transaction ended as reported to its client, and none hangs."""
        if self.state.transactions.first_undecided_offset is not None:
            raise Violation(f"a transaction hangs at offset {self.state.transactions.first_undecided_offset}")
        if self.coordinator.state not in STATES_WITHOUT_TRANSACTION:
            raise Violation(f"the coordinator has not completed: {self.coordinator.metadata}")
        if len(self.outcomes) != len(self.scenario.versions):
            raise Violation(f"the client has not completed its transactions: {self.outcomes}")
        for record in self.log:
            is_own_end = record.ended_by == record.number
            if self.scenario.ends_are_certain and not is_own_end:
                raise Violation(f"the marker of another transaction ended {record}")
            if is_own_end and record.is_commit != self.outcomes[record.number]:
                raise Violation(f"{record} did not end as reported to its client: {self.outcomes}")
        committed = [number for number, is_commit in self.outcomes.items() if is_commit]
        if (
            list(dict.fromkeys(record.number for record in self.log if record.number in committed))
            != committed
        ):
            raise Violation(f"{committed} are committed, and the log has {self.log}")

    # The client

    def _begin(self, number: int) -> None:
        self._number = number
        if number == len(self.scenario.versions):
            return
        version = self.scenario.versions[number]
        if version < TRANSACTION_VERSION_2:
            self._request(
                "add", lambda: self.coordinator.add(self.producer, A, version=version), self._produce
            )
        else:
            self._produce(None)

    def _produce(self, _: object) -> None:
        version = self.scenario.versions[self._number]
        is_new_epoch = self.producer.epoch > 0
        sequence = 0 if is_new_epoch else self._number
        header = data_header(*self.producer, sequence, transactional=True)
        self._produces += 1
        name = f"produce {self._produces} of transaction {self._number}"
        sent = self._sent = ProduceAttempt(name, self._number, self.producer, header, version)
        self._send(f"{name} arrives", lambda: self._arrive(sent))

    def _respond(self, sent: ProduceAttempt, error: ErrorCode) -> None:
        if sent.is_abandoned:
            return
        self._sent = None
        if error is ErrorCode.NONE:
            self._end(is_commit=True)
        elif error is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._wait(Step("the client produces again", lambda: self._produce(None)))
        elif error is ErrorCode.NOT_ENOUGH_REPLICAS:
            self._send(REPEATED_VERIFICATION, lambda: self._produce(None))
        else:
            raise Violation(f"a correct client gets {error.name} in transaction {sent.number}")

    def _end(self, *, is_commit: bool, is_early: bool = False) -> None:
        number, version = self._number, self.scenario.versions[self._number]

        def is_ended(producer: object) -> None:
            assert isinstance(producer, ProducerIdAndEpoch)
            self.outcomes[number] = is_commit
            if version >= TRANSACTION_VERSION_2:
                self.producer = producer
            following = self.scenario.versions[number + 1 :]
            is_upgrade = bool(following) and version < TRANSACTION_VERSION_2 <= following[0]
            if version < TRANSACTION_VERSION_2 and (is_early or is_upgrade):
                self._request("initialize", lambda: self.coordinator.init(self.producer), self._next)
            else:
                self._begin(number + 1)

        def end() -> ProducerIdAndEpoch:
            marking_count = len(self.coordinator.markings)
            producer = self.coordinator.end(self.producer, is_commit, version)
            for marking in self.coordinator.markings[marking_count:]:
                self._transaction_of[id(marking)] = number
                self._send_marker(marking)
            return producer

        self._request("commit" if is_commit else "abort", end, is_ended)

    def _next(self, producer: object) -> None:
        assert isinstance(producer, ProducerIdAndEpoch)
        self.producer = producer
        self._begin(self._number + 1)

    def _request(self, name: str, request: Callable[[], object], done: Callable[[object], None]) -> None:
        """Send a request to the coordinator, which handles it at once; retry while it is busy."""
        try:
            reply = request()
        except KafkaError as error:
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                raise Violation(f"a correct client gets {error.code.name} from the coordinator") from error
            self._wait(Step(f"the client asks again to {name}", lambda: self._request(name, request, done)))
        else:
            done(reply)

    # Messages

    def _send(self, name: str, work: Callable[[], None]) -> None:
        self._bag.append(Step(name, work))

    def _wait(self, step: Step) -> None:
        # A client that retries although nothing has changed would make runs endless.
        (self._waiting if self.coordinator.state.is_prepared else self._bag).append(step)

    # The partition

    def _arrive(self, sent: ProduceAttempt) -> None:
        try:
            verification = self.state.begin_verification(
                sent.producer.producer_id,
                sent.producer.epoch,
                sent.header.base_sequence,
                NOW_MS,
                supports_epoch_bump=sent.version >= TRANSACTION_VERSION_2,
            )
        except KafkaError as error:
            self._respond(sent, error.code)
            return
        if verification is None:
            self._append(sent, NO_VERIFICATION)
        else:
            name = f"verification of {sent.name} arrives"
            self._bag.append(Step(name, lambda: self._verify(sent, verification), verification))

    def _verify(self, sent: ProduceAttempt, verification: Verification) -> None:
        code = ErrorCode.NONE
        try:
            if sent.version >= TRANSACTION_VERSION_2:
                self.coordinator.add(sent.producer, A)
            else:
                (code,) = self.coordinator.verify(sent.producer, A)
        except KafkaError as error:
            code = error.code

        def on_response() -> None:
            if code is ErrorCode.NONE:
                self._append(sent, verification)
            else:
                self._respond(sent, code)

        name = f"verification of {sent.name} returns {code.name}"
        self._bag.append(Step(name, on_response, verification))

    def _append(self, sent: ProduceAttempt, verification: Verification) -> None:
        offset = self.state.map_end_offset
        try:
            duplicate = self.state.check_transactional(
                sent.header, offset, self.scenario.origin, verification
            )
        except KafkaError as error:
            self._respond(sent, error.code)
            return
        if duplicate is None:
            self.state.update(sent.header, offset)
            self.state.update_map_end_offset(offset + 1)
            self.log.append(AppendedRecord(sent.number))
        self._respond(sent, ErrorCode.NONE)

    def _send_marker(self, marking: PreparedTransaction) -> None:
        self._markers_in_flight.append(marking)
        self._send(f"{self._name(marking)} arrives", lambda: self._mark(marking))

    def _name(self, marking: PreparedTransaction) -> str:
        transaction = self._transaction_of[id(marking)]
        return f"marker of transaction {transaction} by coordinator {marking.coordinator_epoch}"

    def _mark(self, marking: PreparedTransaction) -> None:
        self._markers_in_flight.remove(marking)
        version = marking.transaction_version if self.scenario.markers_carry_version else 0
        header = marker_header(marking.producer_id, marking.producer_epoch)
        marker = EndTransactionMarker(not marking.is_commit, marking.coordinator_epoch, 0)
        offset, is_fenced = self.state.map_end_offset, False
        try:
            self.state.check(header, offset, AppendOrigin.COORDINATOR, marker, transaction_version=version)
        except KafkaError as error:
            is_fenced = error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
            if not is_fenced and error.code is not ErrorCode.INVALID_PRODUCER_EPOCH:
                raise Violation(f"a marker is refused with {error.code.name}") from error
        else:
            completed = self.state.update(header, offset, marker, transaction_version=version)
            self.state.update_map_end_offset(offset + 1)
            if completed is not None:
                self.state.transactions.complete(completed)
                for record in self.log:
                    if record.ended_by is None:
                        record.ended_by = self._transaction_of[id(marking)]
                        record.is_commit = marking.is_commit
        if not is_fenced:
            self._send(f"{self._name(marking)} is acknowledged", lambda: self._acknowledge(marking))

    def _acknowledge(self, marking: PreparedTransaction) -> None:
        self.coordinator.write(
            self.coordinator.core.on_markers_written(marking, (A,), self.coordinator.now())
        )

    # Faults

    def _inject(self, fault: Fault) -> None:
        self.faults.remove(fault)
        if fault is Fault.A_MARKER_IS_SENT_AGAIN:
            self._send_marker(self._markers_in_flight[-1])
        elif fault is Fault.THE_COORDINATOR_FAILS_OVER:
            self._fail_over()
        else:
            assert self._sent is not None
            self._sent.is_abandoned = True
            if fault is Fault.THE_CLIENT_SENDS_AGAIN:
                self._produce(None)
            else:
                self._sent = None
                self._end(is_commit=False, is_early=True)

    def _fail_over(self) -> None:
        self._coordinator_epoch += 1
        marking_count = len(self.coordinator.markings)
        number = self._transaction_of[id(self.coordinator.markings[-1])] if marking_count else -1
        self.coordinator.fail_over(self._coordinator_epoch)
        for marking in self.coordinator.markings[marking_count:]:
            self._transaction_of[id(marking)] = number
            self._send_marker(marking)


def explore(scenario: Scenario) -> set[str]:
    """Run every order of steps, each state once; return the names of all steps.

    Raises Violation with the steps that lead to it.
    """
    choices: list[int] = []
    fingerprints: set[Hashable] = set()
    names: set[str] = set()
    while True:
        widths, run_names = _run(scenario, choices, fingerprints)
        names.update(run_names)
        # The next run takes the last choice that has another alternative.
        while widths and choices[-1] + 1 == widths[-1]:
            widths.pop()
            choices.pop()
        if not widths:
            return names
        choices[-1] += 1


def _run(scenario: Scenario, choices: list[int], fingerprints: set[Hashable]) -> tuple[list[int], list[str]]:
    """Run by `choices`, which grow by the first alternative, until the end or to a known state."""
    scenario_run = ScenarioRun(scenario)
    widths: list[int] = []
    names: list[str] = []
    try:
        while steps := scenario_run.steps():
            if len(widths) == len(choices):
                choices.append(0)
            is_new = len(widths) + 1 == len(choices)
            step = steps[choices[len(widths)]]
            widths.append(len(steps))
            names.append(step.name)
            scenario_run.run(step)
            if is_new:
                fingerprint = scenario_run.fingerprint()
                if fingerprint in fingerprints:
                    return widths, names
                fingerprints.add(fingerprint)
        scenario_run.check_end()
    except Violation as violation:
        raise Violation(f"{violation}\n  after {'; '.join(names)}") from violation
    return widths, names
