"""The transactions of a producer, as the application uses them (shell).

    async with Producer("localhost:9092", transactional_id="gauge-1") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("tides", b"high")

Errors: AbortableTransactionError if the transaction has to be aborted; FatalTransactionError if the producer
has to be closed, for example because another producer with its transactional id has fenced it; otherwise
KafkaError.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata, require_offset
from tidelog.clients.producer.transaction_driver import TransactionDriver
from tidelog.clients.transactions.transaction_lifecycle import Operation
from tidelog.clients.transactions.transaction_manager import TransactionManager
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

_log = logging.getLogger("tidelog.clients.transactions")


class ProducerTransactions:
    """The transactions of one producer that has a transactional id.

    It owns the manager (state and next request) and the driver (the task that sends requests to
    coordinators). `check_usable` raises KafkaError if the producer is closed or has failed for good.
    """

    def __init__(
        self, manager: TransactionManager, driver: TransactionDriver, check_usable: Callable[[], None]
    ) -> None:
        self.lifecycle = manager.lifecycle
        self._manager = manager
        self._driver = driver
        self._check_usable = check_usable

    def start(self) -> None:
        """Start the task that sends requests to coordinators."""
        self._driver.start()

    async def close(self) -> None:
        """Stop the task that sends requests to coordinators."""
        await self._driver.close()

    def wake(self) -> None:
        """Make the driver check which request is next."""
        self._driver.wake()

    def add_partition(self, partition: TopicPartition) -> None:
        """Add a partition to the open transaction; the coordinator must know it before records are sent."""
        self._manager.add_partition(partition)
        self._driver.wake()

    def on_send_failed(self, error: KafkaError) -> None:
        """Prevent the commit of a transaction that lacks a rejected record."""
        self._manager.on_send_failed(error)
        self._driver.wake()  # it drops the buffered batches

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Register the transactional id: abort its open transaction and fence other producers that use it.

        Call it once before the first transaction. Raise KafkaError(REQUEST_TIMED_OUT) after `timeout_ms`
        (None: `max_block_ms`); then call it again to continue waiting.
        """
        self._check_usable()
        if self.lifecycle.pending_operation is not Operation.INIT:
            self._manager.begin_init(is_v2=self._driver.is_v2)
        await self._wait_for_result(Operation.INIT, timeout_ms)

    def begin_transaction(self) -> None:
        """Open a transaction; the records sent from now on are part of it."""
        self._check_usable()
        self._manager.begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit a consumer's offsets as part of the transaction (KIP-447).

        `group_metadata` is from the consumer, which must not commit offsets itself. Raise
        KafkaError(REQUEST_TIMED_OUT) after `timeout_ms` (None: `max_block_ms`).
        """
        self._check_usable()
        positions = {
            TopicPartition(*partition): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
            for partition, at in offsets.items()
        }
        for partition, position in positions.items():
            require_offset(position.offset, f"commit of {partition}")
        work = self._manager.add_offsets(group_metadata, positions)
        await self._driver.wait_until(lambda: work.is_complete, "send_offsets_to_transaction", timeout_ms)
        if work.error is not None:
            raise type(work.error)(work.error.code, str(work.error))

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Write all records that were sent, then commit the transaction.

        After KafkaError(REQUEST_TIMED_OUT), or if the calling task was cancelled, it is unknown whether the
        transaction is committed; call it again for the result. After AbortableTransactionError, call
        `abort_transaction`.
        """
        self._check_usable()
        if self.lifecycle.pending_operation is not Operation.COMMIT:
            self._manager.begin_commit(is_v2=self._driver.is_v2)
        await self._wait_for_result(Operation.COMMIT, timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Drop the records that were not sent, and abort the transaction, which hides those that were.

        After KafkaError(REQUEST_TIMED_OUT), or if the calling task was cancelled, call it again.
        """
        self._check_usable()
        if self.lifecycle.pending_operation is not Operation.ABORT:
            self._manager.begin_abort(is_v2=self._driver.is_v2)
        await self._wait_for_result(Operation.ABORT, timeout_ms)

    @asynccontextmanager
    async def transaction(self, commit_timeout_ms: int | None = None) -> AsyncIterator[None]:
        """Open a transaction for a block; commit it at the end, and abort it after an exception.

        A cancelled task also aborts it. If the commit fails, the transaction is aborted. A commit that is
        cancelled, or that takes longer than `commit_timeout_ms` (None: `max_block_ms`, which also limits an
        abort), continues; see `commit_transaction`. If the abort fails, a note is added to the first
        exception.
        """
        self.begin_transaction()
        serial = self.lifecycle.serial
        try:
            yield
            if self.lifecycle.serial != serial:
                text = "another task has ended this transaction and begun the next one"
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)
        except BaseException as error:
            await self._abort_if_possible(serial, error)
            raise
        try:
            await self.commit_transaction(commit_timeout_ms)
        except KafkaError as error:
            await self._abort_if_possible(serial, error)
            raise

    async def end(self, timeout_ms: int | None, transaction_timeout_ms: int) -> None:
        """Abort an open transaction and wait for the end of one in progress, before the producer is closed.

        Wait at most `timeout_ms` (None: no limit; 0: do nothing). If the result is unknown then, log it; the
        coordinator aborts the transaction after `transaction_timeout_ms`.
        """
        if timeout_ms == 0:
            return
        lifecycle = self.lifecycle
        if lifecycle.can_abort:
            self._manager.begin_abort(is_v2=self._driver.is_v2)
        try:
            await self._driver.wait_until(
                lambda: not lifecycle.is_ending, "the end of the transaction", timeout_ms
            )
        except KafkaError:
            _log.warning(
                "Producer %r was closed before its transaction ended; the coordinator aborts an open"
                " transaction %d ms after its start",
                lifecycle.transactional_id,
                transaction_timeout_ms,
            )

    # --- inside ---------------------------------------------------------------------------

    async def _abort_if_possible(self, serial: int, cause: BaseException) -> None:
        """Abort the transaction after `cause`, which the caller raises; note on it if the abort fails."""
        try:
            self._check_usable()
            if self.lifecycle.can_abort and self.lifecycle.serial == serial:
                await self.abort_transaction()
        except KafkaError as error:
            cause.add_note(f"abort_transaction also failed: {error}")

    async def _wait_for_result(self, operation: Operation, timeout_ms: int | None) -> None:
        pending = self.lifecycle.pending
        assert pending is not None and pending.operation is operation
        await self._driver.wait_until(lambda: pending.has_ended, operation.value, timeout_ms)
        self.lifecycle.take_result(pending)
