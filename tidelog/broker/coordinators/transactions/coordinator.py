"""The transaction coordinator of one partition of `__transaction_state`: all of its commands in one place.

How it is used: call a command, append the records it gives to the log, `replay` each of them with the
offset it got, and `advance` when they are committed; then tell `writes.settled` and send the reply. If
the append fails, replay nothing and tell `settled` the error. Nothing may come between a command and
the replay of its records. Call `tick` when `next_due_ms` has come.

A transaction is prepared with the commit of that record: then `on_prepared` is told which markers must be
written, and `marked` is to be called with the partitions that have them. With the last one the transaction
is complete, which is written, again and again until it is in the log. A new coordinator does the same with
what it finds prepared (KAFKA-16352). It also aborts at once what has timed out: its first regular check may
be a whole interval away, and coordinators that move often might never come to it. An abort that cannot be
written is tried again soon, too.

I/O: none. Errors: commands raise KafkaError where their docstring says so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NOTHING, Writes
from tidelog.broker.coordinators.transactions.add_partitions import AddPartitionsCommand
from tidelog.broker.coordinators.transactions.administration import Administration
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.end_transaction import EndTransactionCommand
from tidelog.broker.coordinators.transactions.init_producer import InitProducerCommand
from tidelog.broker.coordinators.transactions.marking import Marking
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.registry import TransactionEntry, TransactionRegistry
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.broker.coordinators.transactions.upkeep import Upkeep
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import Offset, TopicPartition

logger = logging.getLogger(__name__)

COMPLETION_RETRY_MS: Final = 100
ABORT_RETRY_MS: Final = 500


class TransactionCoordinator:
    """Transactional ids of one partition, in one leader epoch."""

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        config: TransactionConfig,
        transaction_version: Callable[[], int],
        on_prepared: Callable[[Marking], None],
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.registry = TransactionRegistry()
        self._on_prepared = on_prepared
        self._is_loaded = False
        self._markings: dict[str, Marking] = {}
        self._marked: dict[str, None] = {}
        """Ids whose markers are all written, and that are to be completed at `_retry_due_ms`."""
        self._retry_due_ms: int | None = None
        self._abort_due_ms: int | None = None
        """When to look for timed-out transactions again, because an abort could not be written."""
        self._upkeep = Upkeep(self.registry, config, transaction_version)
        adding = AddPartitionsCommand(self.registry)
        administration = Administration(self.registry)
        self.init_producer = InitProducerCommand(self.registry, config, transaction_version).init_producer
        self.add_partitions = adding.add_partitions
        self.verify_partitions = adding.verify_partitions
        self.end_transaction = EndTransactionCommand(self.registry).end_transaction
        self.waits_only_for_commit = self.registry.waits_only_for_commit
        self.expire = self._upkeep.expire
        self.describe = administration.describe
        self.list = administration.list

    # Replay

    def replay(self, record: TransactionRecord, record_offset: Offset) -> None:
        """Apply one record of the log."""
        self.registry.replay(record.transactional_id, record.metadata, record_offset)

    def advance(self, high_watermark: Offset) -> None:
        """Note that records below `high_watermark` are committed; start markers of prepared transactions."""
        prepared = self.registry.advance(high_watermark)
        if self._is_loaded:
            for entry in prepared:
                self._mark(entry)

    def finish_loading(self, now: Moment) -> list[Writes[TransactionRecord]]:
        """Note that all records are replayed; resume the previous coordinator's transactions."""
        self._is_loaded = True
        self._mark_prepared()
        return [*self._complete_marked(now), *self.abort_timed_out(now)]

    # Markers

    def _mark_prepared(self) -> None:
        """Start the markers of every transaction that the previous coordinator had prepared."""
        for entry in self.registry:
            if entry.committed is not None and entry.committed.state.is_prepared:
                self._mark(entry)

    def _mark(self, entry: TransactionEntry) -> None:
        metadata = entry.committed
        assert metadata is not None
        marking = Marking(
            transactional_id=metadata.transactional_id,
            state_partition=self.partition,
            coordinator_epoch=self.coordinator_epoch,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            is_commit=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_transaction_version,
            partitions=frozenset(entry.unmarked),
        )
        self._markings[metadata.transactional_id] = marking
        if marking.partitions:
            self._on_prepared(marking)
        else:
            self._marked[metadata.transactional_id] = None
            self._retry_due_ms = 0

    def on_markers_written(
        self, marking: Marking, partitions: Iterable[TopicPartition], now: Moment
    ) -> Writes[TransactionRecord]:
        """Partitions have their marker, or are gone; the last of them completes the transaction.

        Of a transaction that is over, or of another coordinator, nothing is heard any more.
        """
        entry = self.registry.get(marking.transactional_id)
        if self._markings.get(marking.transactional_id) is not marking or entry is None or not entry.unmarked:
            return NOTHING
        entry.unmarked.difference_update(partitions)
        return NOTHING if entry.unmarked else self._complete(marking.transactional_id, now)

    def _complete(self, transactional_id: str, now: Moment) -> Writes[TransactionRecord]:
        metadata = self.registry.committed(transactional_id)
        assert metadata is not None
        assert metadata.state.is_prepared, f"{transactional_id!r} is {metadata.state.value}"

        def settled(error: ErrorCode, _: Moment) -> Writes[TransactionRecord]:
            if error is ErrorCode.NONE:
                self._markings.pop(transactional_id, None)
            else:
                # Whoever leads the partition next completes it; until then this node tries.
                self._marked[transactional_id] = None
                self._retry_due_ms = now.monotonic_ms + COMPLETION_RETRY_MS
            return NOTHING

        return Writes((TransactionRecord(transactional_id, metadata.completed(now.wall_ms)),), settled)

    def _complete_marked(self, now: Moment) -> list[Writes[TransactionRecord]]:
        marked, self._marked = self._marked, {}
        self._retry_due_ms = None
        return [self._complete(transactional_id, now) for transactional_id in marked]

    # Time

    def abort_timed_out(self, now: Moment) -> list[Writes[TransactionRecord]]:
        """Abort the transactions that took too long, since the start that is recorded in the log."""

        def settled(error: ErrorCode, _: Moment) -> Writes[TransactionRecord]:
            if error is not ErrorCode.NONE:
                self._abort_due_ms = now.monotonic_ms + ABORT_RETRY_MS
            return NOTHING

        self._abort_due_ms = None
        return [Writes((record,), settled) for record in self._upkeep.aborts_of_timed_out(now)]

    def next_due_ms(self) -> int | None:
        """When `tick` must be called next, on the monotonic clock; None when nothing is pending."""
        pending = [due_ms for due_ms in (self._retry_due_ms, self._abort_due_ms) if due_ms is not None]
        return min(pending, default=None)

    def tick(self, now: Moment) -> list[Writes[TransactionRecord]]:
        """Write what could not be written before."""
        writes: list[Writes[TransactionRecord]] = []
        if self._retry_due_ms is not None and now.monotonic_ms >= self._retry_due_ms:
            writes += self._complete_marked(now)
        if self._abort_due_ms is not None and now.monotonic_ms >= self._abort_due_ms:
            writes += self.abort_timed_out(now)
        return writes

    # The end

    def resign(self) -> None:
        """Another node leads the partition: it writes the markers, and all is forgotten here."""
        for marking in self._markings.values():
            marking.is_cancelled = True
        self._markings.clear()
        self._marked.clear()
        self._retry_due_ms = self._abort_due_ms = None
        self.registry.clear()

    def state_counts(self) -> Counter[TransactionState]:
        """How many ids are in each state, for metrics."""
        return self.registry.state_counts()
