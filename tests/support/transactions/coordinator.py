"""A transaction coordinator without a node: its log is a list, and appends are committed at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from tests.support.configs import transaction_config
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.coordinator import TransactionCoordinator
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch, ProducerIdNeeded
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import ProducerId, TopicPartition

R = TypeVar("R")

ID = "tides"
TIMEOUT_MS = 60_000
NOW_MS = 1_000_000
STARTED_MS = NOW_MS - 5
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


class TransactionCoordinatorFixture:
    """A coordinator and the commands of one transactional id.

    With `holds_commits`, appended records stay uncommitted until `commit`.
    """

    def __init__(
        self,
        config: TransactionConfig | None = None,
        *,
        transaction_version: int = 2,
    ) -> None:
        self.config = config or transaction_config()
        self.transaction_version = transaction_version
        self.log: list[TransactionRecord] = []
        self.markings: list[PreparedTransaction] = []
        self.now_ms = NOW_MS
        self.holds_commits = False
        self.append_error: ErrorCode | None = None
        self.next_producer_id = 100
        self._held: list[Writes[TransactionRecord]] = []
        self.core = self._new_core(1)

    def _new_core(self, epoch: int) -> TransactionCoordinator:
        return TransactionCoordinator(
            0, epoch, self.config, lambda: self.transaction_version, self.markings.append
        )

    # Time and the log

    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms)

    def start(self) -> TransactionCoordinatorFixture:
        """Load the log."""
        for offset, record in enumerate(self.log):
            self.core.replay(record, offset)
            self.core.advance(offset + 1)
        for writes in self.core.finish_loading(self.now()):
            self.write(writes)
        return self

    def fail_over(self, epoch: int) -> None:
        """Load the log in another coordinator with a later leader epoch."""
        self.core.resign()
        self._held.clear()
        self.core = self._new_core(epoch)
        self.start()

    def write(self, writes: Writes[TransactionRecord]) -> None:
        if self.append_error is not None:
            if writes.follow_up is not None:
                writes.follow_up(self.append_error, self.now())
            raise KafkaError(self.append_error)
        for record in writes.records:
            self.core.replay(record, len(self.log))
            self.log.append(record)
        self._held.append(writes)
        if not self.holds_commits:
            self.commit()

    def commit(self) -> None:
        """Commit appended records."""
        held, self._held = self._held, []
        self.core.advance(len(self.log))
        for writes in held:
            if writes.follow_up is not None:
                self.write(writes.follow_up(ErrorCode.NONE, self.now()))

    def tick(self) -> None:
        for writes in self.core.tick(self.now()):
            self.write(writes)

    # Commands

    def _do(self, command: Callable[[ProducerId | None], Outcome[R]]) -> R:
        try:
            outcome = command(None)
        except ProducerIdNeeded:
            self.next_producer_id += 1
            outcome = command(self.next_producer_id)
        self.write(outcome.writes)
        return outcome.reply

    def init(
        self, expected: tuple[int, int] | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> ProducerIdAndEpoch:
        producer_id_and_epoch = None if expected is None else ProducerIdAndEpoch(*expected)
        return self._do(
            lambda new: self.core.init_producer(ID, timeout_ms, producer_id_and_epoch, new, self.now())
        )

    def add(self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 2) -> None:
        producer_id_and_epoch = ProducerIdAndEpoch(*producer)
        self._do(
            lambda _: self.core.add_partitions(ID, producer_id_and_epoch, partitions, version, self.now())
        )

    def end(self, producer: tuple[int, int], is_commit: bool, version: int = 2) -> ProducerIdAndEpoch:
        producer_id_and_epoch = ProducerIdAndEpoch(*producer)
        return self._do(
            lambda new: self.core.end_transaction(
                ID, producer_id_and_epoch, is_commit, version, new, self.now()
            )
        )

    def verify(self, producer: tuple[int, int], *partitions: TopicPartition) -> list[ErrorCode]:
        errors = self.core.verify_partitions(ID, ProducerIdAndEpoch(*producer), partitions)
        return [errors[partition] for partition in partitions]

    def mark(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Complete the newest markers, of all or of some partitions."""
        marking = self.markings[-1]
        wanted = marking.partitions if partitions is None else partitions
        self.write(self.core.on_markers_written(marking, wanted, self.now()))

    def look_for_timeouts(self) -> None:
        for writes in self.core.abort_timed_out(self.now()):
            self.write(writes)

    def expire(self) -> None:
        self.write(self.core.expire(self.now()))

    # State

    @property
    def metadata(self) -> TransactionMetadata:
        metadata = self.core.registry.committed_metadata(ID)
        assert metadata is not None
        return metadata

    @property
    def state(self) -> TransactionState:
        return self.metadata.state

    def put(self, **fields: object) -> TransactionMetadata:
        """Append a record of an earlier coordinator."""
        values: dict[str, object] = {
            "transactional_id": ID,
            "producer_id": 7,
            "producer_epoch": 3,
            "timeout_ms": TIMEOUT_MS,
            "last_update_wall_ms": self.now_ms,
        }
        if fields.get("state") is TransactionState.ONGOING:
            values["start_wall_ms"] = self.now_ms
        metadata = TransactionMetadata(**{**values, **fields})  # type: ignore[arg-type]
        self.log.append(TransactionRecord(ID, metadata))
        return metadata


def refusal(command: Callable[[], object]) -> ErrorCode:
    """Return the error with which a command is refused."""
    with pytest.raises(KafkaError) as error:
        command()
    return error.value.code
