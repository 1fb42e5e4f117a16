"""A transaction coordinator, partitions and a network on virtual time, all from one seed.

The coordinator is the real core; a crash loses the uncommitted records of its log. Partitions have the real
producer state of a log: epochs, coordinator epochs, verification before the first record, and repeated
markers. The network loses and duplicates messages, and may deliver them long after their timeout. Up to
transaction.version 1 it does not delay EndTxn requests and markers, because a late one cannot be
distinguished from that of the next transaction.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from random import Random

from tests.support.batches.producer_headers import data_header, marker_header
from tests.support.configs import PRODUCER_ID_EXPIRATION_MS, transaction_config
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Writes
from tidelog.broker.coordinators.transactions.coordinator import TransactionCoordinator
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

UPKEEP_MS = 50
MARKER_RETRY_MS = 40
TRANSACTION_VERSION_2 = 2

OnResponse = Callable[[object], None]
Command = Callable[[TransactionCoordinator], tuple[object, Writes[TransactionRecord]]]


class Violation(AssertionError):
    """A violated invariant."""


class SimulatedCluster:
    """Time, randomness and the network."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.is_calm = False
        self.events = 0
        self._order = count()
        self._heap: list[tuple[int, int, Callable[[], None]]] = []

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now_ms + delay_ms, next(self._order), work))

    def run_until(self, end_ms: int) -> None:
        while self._heap and self._heap[0][0] <= end_ms:
            self.now_ms, _, work = heapq.heappop(self._heap)
            self.events += 1
            work()
        self.now_ms = end_ms

    def moment(self) -> Moment:
        return Moment(self.now_ms, self.now_ms)

    def chance(self, probability: float) -> bool:
        return not self.is_calm and self.rng.random() < probability

    def deliver(self, work: Callable[[], None], *, may_be_late: bool = True) -> None:
        """Deliver a message soon, late, twice or never."""
        if self.chance(0.08):
            return
        self.after(self.rng.randint(1, 8), work)
        if may_be_late and self.chance(0.08):
            self.after(self.rng.randint(100, 3_000), work)


class Partition:
    """A partition with the real producer state of a log; `outcomes` has whether each transaction committed.

    Records have no sequences, as those of a coordinator; the number of a record identifies a repeated one.
    """

    def __init__(self, cluster: SimulatedCluster, name: TopicPartition, coordinator: Coordinator) -> None:
        self.name = name
        self.outcomes: dict[int, bool] = {}
        self._cluster = cluster
        self._coordinator = coordinator
        disk = CrashFileSystem()
        disk.makedirs("/log")
        self._state = ProducerStateManager(name, disk, "/log", PRODUCER_ID_EXPIRATION_MS)
        self._open: defaultdict[int, list[int]] = defaultdict(list)
        self._record_keys: set[tuple[ProducerIdAndEpoch, int]] = set()

    def produce(self, producer: ProducerIdAndEpoch, number: int, version: int, respond: OnResponse) -> None:
        """Append the record of a transaction after its coordinator verified it."""
        if (producer, number) in self._record_keys:
            respond(ErrorCode.NONE)
            return
        try:
            verification = self._state.begin_verification(
                *producer, -1, self._cluster.now_ms, supports_epoch_bump=version >= TRANSACTION_VERSION_2
            )
        except KafkaError as error:
            respond(error.code)
            return
        if verification is None:
            respond(self._append(producer, number, NO_VERIFICATION))
        else:
            self._verify(producer, number, version, verification, respond)

    def _verify(
        self,
        producer: ProducerIdAndEpoch,
        number: int,
        version: int,
        verification: Verification,
        respond: OnResponse,
    ) -> None:
        def finish(error: object) -> None:
            respond(self._append(producer, number, verification) if error is ErrorCode.NONE else error)

        def request() -> None:
            def on_response(error: object) -> None:
                self._cluster.deliver(lambda: finish(error), may_be_late=False)

            if version >= TRANSACTION_VERSION_2:
                self._coordinator.add(number_id(number), producer, self.name, version, on_response)
            else:
                self._coordinator.verify(number_id(number), producer, self.name, on_response)

        self._cluster.deliver(request)

    def _append(self, producer: ProducerIdAndEpoch, number: int, verification: Verification) -> ErrorCode:
        header, offset = data_header(*producer, -1, transactional=True), self._state.map_end_offset
        try:
            self._state.check_transactional(header, offset, AppendOrigin.COORDINATOR, verification)
        except KafkaError as error:
            return error.code
        if (producer, number) not in self._record_keys:
            self._state.update(header, offset)
            self._state.update_map_end_offset(offset + 1)
            self._open[producer.producer_id].append(number)
            self._record_keys.add((producer, number))
        return ErrorCode.NONE

    def mark(self, marking: PreparedTransaction) -> ErrorCode:
        """Append a marker."""
        header, offset = (
            marker_header(marking.producer_id, marking.producer_epoch),
            self._state.map_end_offset,
        )
        marker = EndTransactionMarker(not marking.is_commit, marking.coordinator_epoch, self._cluster.now_ms)
        version = marking.transaction_version
        try:
            self._state.check(header, offset, AppendOrigin.COORDINATOR, marker, transaction_version=version)
        except KafkaError as error:
            return error.code
        completed = self._state.update(header, offset, marker, transaction_version=version)
        self._state.update_map_end_offset(offset + 1)
        numbers = self._open.pop(marking.producer_id, [])
        assert (completed is not None) == bool(numbers), f"{completed} ended {numbers}"
        if completed is not None:
            self._state.transactions.complete(completed)
            self.outcomes.update(dict.fromkeys(numbers, marking.is_commit))
        return ErrorCode.NONE

    @property
    def open_records(self) -> list[int]:
        """Return the transactions without a marker."""
        return [number for numbers in self._open.values() for number in numbers]


class Coordinator:
    """The real core with a log that commits with a delay or loses records in a crash."""

    def __init__(self, cluster: SimulatedCluster, version: int, timeout_ms: int) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.core: TransactionCoordinator | None = None
        self.crashes = 0
        self._cluster = cluster
        self._version = version
        self._config = transaction_config(transaction_max_timeout_ms=timeout_ms)
        self._log: list[TransactionRecord] = []
        self._committed = 0
        self._epoch = 0
        self._new_ids = count(1_000)
        self.start()

    def start(self) -> None:
        self._epoch += 1
        core = self.core = TransactionCoordinator(
            0, self._epoch, self._config, lambda: self._version, self._send_markers
        )
        for offset, record in enumerate(self._log):
            core.replay(record, offset)
        self._committed = len(self._log)
        core.advance(self._committed)
        for writes in core.finish_loading(self._cluster.moment()):
            self._perform(core, writes)
        self._cluster.after(UPKEEP_MS, lambda: self._timeouts(core))

    def crash(self, down_ms: int) -> None:
        if self.core is None:
            return
        self.crashes += 1
        self.core.resign()
        self.core = None
        del self._log[self._cluster.rng.randint(self._committed, len(self._log)) :]
        self._cluster.after(down_ms, self.start)

    def _timeouts(self, core: TransactionCoordinator) -> None:
        if self.core is core:
            for writes in (*core.tick(self._cluster.moment()), *core.abort_timed_out(self._cluster.moment())):
                self._perform(core, writes)
            self._cluster.after(UPKEEP_MS, lambda: self._timeouts(core))

    def _perform(
        self, core: TransactionCoordinator, writes: Writes[TransactionRecord], done: OnResponse | None = None
    ) -> None:
        for record in writes.records:
            self._log.append(record)
            core.replay(record, len(self._log) - 1)
        end = len(self._log)

        def commit() -> None:
            if self.core is not core:
                return
            self._committed = max(self._committed, end)
            core.advance(end)
            if writes.follow_up is not None:
                self._perform(core, writes.follow_up(ErrorCode.NONE, self._cluster.moment()))
            if done is not None:
                done(ErrorCode.NONE)

        if writes.records:
            self._cluster.after(self._cluster.rng.randint(1, 25), commit)
        elif done is not None:
            done(ErrorCode.NONE)

    # Requests

    def _execute(
        self,
        respond: OnResponse,
        command: Callable[[TransactionCoordinator], tuple[object, Writes[TransactionRecord]]],
    ) -> None:
        core = self.core
        if core is None:
            respond(ErrorCode.NOT_COORDINATOR)
            return
        try:
            reply, writes = command(core)
        except KafkaError as error:
            respond(error.code)
            return
        self._perform(core, writes, lambda _: respond(reply))

    def init(self, transactional_id: str, respond: OnResponse) -> None:
        def on_reply(reply: object) -> None:
            respond(ErrorCode.CONCURRENT_TRANSACTIONS if reply == ProducerIdAndEpoch() else reply)

        timeout_ms = self._config.transaction_max_timeout_ms
        self._execute(
            on_reply,
            lambda core: core.init_producer(
                transactional_id, timeout_ms, None, next(self._new_ids), self._cluster.moment()
            ),
        )

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partition: TopicPartition,
        version: int,
        respond: OnResponse,
    ) -> None:
        def command(core: TransactionCoordinator) -> tuple[object, Writes[TransactionRecord]]:
            moment = self._cluster.moment()
            outcome = core.add_partitions(transactional_id, producer, (partition,), version, moment)
            return ErrorCode.NONE, outcome.writes

        self._execute(respond, command)

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partition: TopicPartition,
        respond: OnResponse,
    ) -> None:
        def command(core: TransactionCoordinator) -> tuple[object, Writes[TransactionRecord]]:
            return core.verify_partitions(transactional_id, producer, (partition,))[partition], Writes()

        self._execute(respond, command)

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        version: int,
        respond: OnResponse,
    ) -> None:
        self._execute(
            respond,
            lambda core: core.end_transaction(
                transactional_id, producer, is_commit, version, next(self._new_ids), self._cluster.moment()
            ),
        )

    # Markers

    def _send_markers(self, marking: PreparedTransaction) -> None:
        for partition in sorted(marking.partitions):
            self._send_marker(marking, partition)

    def _send_marker(self, marking: PreparedTransaction, partition: TopicPartition) -> None:
        """Send a marker until it gets a response, while this coordinator is the current one."""
        core = self.core
        is_acknowledged = False

        def on_response(error: ErrorCode) -> None:
            nonlocal is_acknowledged
            if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED or is_acknowledged:
                return
            is_acknowledged = True
            if self.core is core and core is not None:
                self._perform(core, core.on_markers_written(marking, (partition,), self._cluster.moment()))

        def arrive() -> None:
            error = self.partitions[partition].mark(marking)
            self._cluster.deliver(lambda: on_response(error))

        def attempt() -> None:
            if not is_acknowledged and self.core is core:
                may_be_late = marking.transaction_version >= TRANSACTION_VERSION_2
                self._cluster.deliver(arrive, may_be_late=may_be_late)
                self._cluster.after(MARKER_RETRY_MS, attempt)

        # The core may be in the middle of a step.
        self._cluster.after(0, attempt)


def number_id(number: int) -> str:
    """Return the transactional id of a transaction by its number."""
    return f"id-{number % 2}"
