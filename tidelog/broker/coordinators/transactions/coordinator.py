"""The transaction coordinator of one partition of `__transaction_state`: all of its commands in one place.

How to use it: call a command, append its records to the log and `replay` each with its offset. Call `advance`
when they are committed, then `writes.follow_up`, and send the reply. If the append fails, replay nothing and
call `follow_up` with the error. No other command may run between a command and the replay of its records.
Call `tick` when `next_deadline_ms` has come.

A transaction is prepared when that record is committed. Then `on_prepared` is called with the markers that
must be written, and `on_markers_written` must be called with the partitions that have them. The last one
completes the transaction. The completion is written and retried until it is in the log. A new coordinator
does the same with the transactions that it finds prepared (KAFKA-16352). It also aborts timed-out
transactions at once: its first regular check is after a whole interval, which a coordinator that moves often
would never reach. An abort that cannot be written is retried soon, too.

I/O: none. Errors: commands raise KafkaError if their docstring states it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Writes
from tidelog.broker.coordinators.transactions.add_partitions import AddPartitionsCommand
from tidelog.broker.coordinators.transactions.administration import Administration
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.end_transaction import EndTransactionCommand
from tidelog.broker.coordinators.transactions.init_producer import InitProducerCommand
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.records import TransactionRecord
from tidelog.broker.coordinators.transactions.registry import TransactionEntry, TransactionRegistry
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.broker.coordinators.transactions.timeouts import TransactionTimeouts
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import Offset, TopicPartition

logger = logging.getLogger(__name__)

COMPLETION_RETRY_MS: Final = 100
ABORT_RETRY_MS: Final = 500


class TransactionCoordinator:
    """Coordinates the transactional ids of one partition in one leader epoch."""

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        config: TransactionConfig,
        transaction_version: Callable[[], int],
        on_prepared: Callable[[PreparedTransaction], None],
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.registry = TransactionRegistry()
        self._on_prepared = on_prepared
        self._is_loaded = False
        self._prepared_transactions: dict[str, PreparedTransaction] = {}
        self._completable: dict[str, None] = {}
        """Ids whose markers are all written, and that must be completed at `_retry_deadline_ms`."""
        self._retry_deadline_ms: int | None = None
        self._abort_deadline_ms: int | None = None
        """The time of the next check for timeouts; set if an abort could not be written."""
        self._timeouts = TransactionTimeouts(self.registry, config, transaction_version)
        add_partitions = AddPartitionsCommand(self.registry)
        administration = Administration(self.registry)
        self.init_producer = InitProducerCommand(self.registry, config, transaction_version).init_producer
        self.add_partitions = add_partitions.add_partitions
        self.verify_partitions = add_partitions.verify_partitions
        self.end_transaction = EndTransactionCommand(self.registry).end_transaction
        self.waits_only_for_commit = self.registry.waits_only_for_commit
        self.expire = self._timeouts.expire
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
                self._write_markers(entry)

    def finish_loading(self, now: Moment) -> list[Writes[TransactionRecord]]:
        """Note that all records are replayed; resume the previous coordinator's transactions."""
        self._is_loaded = True
        self._write_markers_of_prepared()
        return [*self._complete_all(now), *self.abort_timed_out(now)]

    # Markers

    def _write_markers_of_prepared(self) -> None:
        """Start the markers of every transaction that the previous coordinator had prepared."""
        for entry in self.registry:
            if entry.committed_metadata is not None and entry.committed_metadata.state.is_prepared:
                self._write_markers(entry)

    def _write_markers(self, entry: TransactionEntry) -> None:
        metadata = entry.committed_metadata
        assert metadata is not None
        transaction = PreparedTransaction(
            transactional_id=metadata.transactional_id,
            state_partition=self.partition,
            coordinator_epoch=self.coordinator_epoch,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            is_commit=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_transaction_version,
            partitions=frozenset(entry.partitions_without_marker),
        )
        self._prepared_transactions[metadata.transactional_id] = transaction
        if transaction.partitions:
            self._on_prepared(transaction)
        else:
            self._completable[metadata.transactional_id] = None
            self._retry_deadline_ms = 0

    def on_markers_written(
        self, transaction: PreparedTransaction, partitions: Iterable[TopicPartition], now: Moment
    ) -> Writes[TransactionRecord]:
        """Remove partitions that have their marker or have been deleted; the last completes the transaction.

        A call for a transaction that has ended, or of another coordinator, has no effect.
        """
        entry = self.registry.get(transaction.transactional_id)
        if self._prepared_transactions.get(transaction.transactional_id) is not transaction or entry is None:
            return NO_WRITES
        if not entry.partitions_without_marker:
            return NO_WRITES
        entry.on_markers_written(partitions)
        if entry.partitions_without_marker:
            return NO_WRITES
        return self._complete(transaction.transactional_id, now)

    def _complete(self, transactional_id: str, now: Moment) -> Writes[TransactionRecord]:
        metadata = self.registry.committed_metadata(transactional_id)
        assert metadata is not None
        assert metadata.state.is_prepared, f"{transactional_id!r} is {metadata.state.value}"

        def follow_up(error: ErrorCode, _: Moment) -> Writes[TransactionRecord]:
            if error is ErrorCode.NONE:
                self._prepared_transactions.pop(transactional_id, None)
            else:
                # The next leader of the partition completes it; until then this node retries.
                self._completable[transactional_id] = None
                self._retry_deadline_ms = now.monotonic_ms + COMPLETION_RETRY_MS
            return NO_WRITES

        return Writes(
            (TransactionRecord(transactional_id, metadata.prepare_complete(now.wall_ms)),), follow_up
        )

    def _complete_all(self, now: Moment) -> list[Writes[TransactionRecord]]:
        completable, self._completable = self._completable, {}
        self._retry_deadline_ms = None
        return [self._complete(transactional_id, now) for transactional_id in completable]

    # Deadlines

    def abort_timed_out(self, now: Moment) -> list[Writes[TransactionRecord]]:
        """Return the aborts of the transactions that have timed out; their start is recorded in the log."""

        def follow_up(error: ErrorCode, _: Moment) -> Writes[TransactionRecord]:
            if error is not ErrorCode.NONE:
                self._abort_deadline_ms = now.monotonic_ms + ABORT_RETRY_MS
            return NO_WRITES

        self._abort_deadline_ms = None
        return [Writes((record,), follow_up) for record in self._timeouts.aborts_of_timed_out(now)]

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next call of `tick`; None if no retry is pending."""
        deadlines = (self._retry_deadline_ms, self._abort_deadline_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def tick(self, now: Moment) -> list[Writes[TransactionRecord]]:
        """Return the writes that failed before and must be retried now."""
        writes: list[Writes[TransactionRecord]] = []
        if self._retry_deadline_ms is not None and now.monotonic_ms >= self._retry_deadline_ms:
            writes += self._complete_all(now)
        if self._abort_deadline_ms is not None and now.monotonic_ms >= self._abort_deadline_ms:
            writes += self.abort_timed_out(now)
        return writes

    # Resignation

    def resign(self) -> None:
        """Cancel all markers, because another node leads the partition, and drop the state."""
        for transaction in self._prepared_transactions.values():
            transaction.cancel()
        self._prepared_transactions.clear()
        self._completable.clear()
        self._retry_deadline_ms = self._abort_deadline_ms = None
        self.registry.clear()

    def state_counts(self) -> Counter[TransactionState]:
        """Return the number of transactional ids in each state, for metrics."""
        return self.registry.state_counts()
