"""The transactions of a producer as the application sees them (shell).

    async with Producer("localhost:9092", transactional_id="gauge-1") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("tides", b"high")

Errors: AbortableTransactionError when the transaction has to be aborted, FatalTransactionError when the
producer has to be closed (fenced by another with its transactional id, for instance), KafkaError else.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata, require_offset
from tidelog.clients.producer.transaction_driver import TransactionDriver
from tidelog.clients.transactions.transaction_life import Operation
from tidelog.clients.transactions.transaction_manager import TransactionManager
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

_log = logging.getLogger("tidelog.clients.transactions")


class ProducerTransactions:
    """The transactions of one producer that has a transactional id.

    It owns the manager (what is sent next) and the driver (the task that talks to coordinators).
    `check_usable` raises KafkaError if the producer is closed or has failed for good.
    """

    def __init__(
        self, manager: TransactionManager, driver: TransactionDriver, check_usable: Callable[[], None]
    ) -> None:
        self.manager = manager
        self._driver = driver
        self._check_usable = check_usable

    def start(self) -> None:
        """Start the task that talks to coordinators."""
        self._driver.start()

    async def close(self) -> None:
        """Stop the task that talks to coordinators."""
        await self._driver.close()

    def wake(self) -> None:
        """Have the driver look at what can be sent now."""
        self._driver.wake()

    def add_partition(self, partition: TopicPartition) -> None:
        """Add a partition to the open transaction; its coordinator must know before records are sent."""
        self.manager.add_partition(partition)
        self._driver.wake()

    def on_send_failed(self, error: KafkaError) -> None:
        """Note that a record was refused, so that its transaction cannot be committed."""
        self.manager.send_failed(error)
        self._driver.wake()  # what is buffered will not be sent

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Take over the transactional id: its open transaction is aborted, other producers are fenced.

        Once before the first transaction. Waits at most `timeout_ms` (None: `max_block_ms`), then
        KafkaError(REQUEST_TIMED_OUT); call again to wait on.
        """
        self._check_usable()
        manager = self.manager
        if manager.unclaimed is not Operation.INIT:
            manager.begin_init(is_v2=self._driver.is_v2)
        await self._finish(Operation.INIT, timeout_ms)

    def begin_transaction(self) -> None:
        """Open a transaction; records that are sent from now on belong to it."""
        self._check_usable()
        self.manager.begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit what a consumer has read with the transaction; `group_metadata` is the consumer's (KIP-447).

        The consumer must not commit by itself. KafkaError(REQUEST_TIMED_OUT) after `timeout_ms` (None:
        `max_block_ms`).
        """
        self._check_usable()
        positions = {
            TopicPartition(*partition): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
            for partition, at in offsets.items()
        }
        for partition, position in positions.items():
            require_offset(position.offset, f"commit of {partition}")
        work = self.manager.add_offsets(group_metadata, positions)
        await self._driver.wait_until(lambda: work.is_done, "send_offsets_to_transaction", timeout_ms)
        if work.error is not None:
            raise type(work.error)(work.error.code, str(work.error))

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Write all that was sent, then commit it.

        After KafkaError(REQUEST_TIMED_OUT), or when the task was cancelled, nobody knows whether it is
        committed; call again to know. After AbortableTransactionError call `abort_transaction`.
        """
        self._check_usable()
        manager = self.manager
        if manager.unclaimed is not Operation.COMMIT:
            manager.begin_commit(is_v2=self._driver.is_v2)
        await self._finish(Operation.COMMIT, timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Drop what was not sent, and let nobody see what was.

        After KafkaError(REQUEST_TIMED_OUT), or when the task was cancelled, call again.
        """
        self._check_usable()
        manager = self.manager
        if manager.unclaimed is not Operation.ABORT:
            manager.begin_abort(is_v2=self._driver.is_v2)
        await self._finish(Operation.ABORT, timeout_ms)

    @asynccontextmanager
    async def transaction(self, commit_timeout_ms: int | None = None) -> AsyncIterator[None]:
        """A transaction that is committed at the end, and aborted after an exception (also a cancelled task).

        A commit that fails is aborted, too; one that is cancelled or takes longer than `commit_timeout_ms`
        (None: `max_block_ms`, as for an abort) goes on, see `commit_transaction`. That an abort fails is
        noted on the exception that it follows.
        """
        self.begin_transaction()
        manager = self.manager
        serial = manager.serial
        try:
            yield
            if manager.serial != serial:
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

    # --- inside ---------------------------------------------------------------------------

    async def _abort_if_possible(self, serial: int, cause: BaseException) -> None:
        """Abort after an error; that is what the application is told of, with a note when this fails, too."""
        try:
            self._check_usable()
            manager = self.manager
            if manager.can_abort and manager.serial == serial:
                await self.abort_transaction()
        except KafkaError as error:
            cause.add_note(f"abort_transaction failed then: {error}")

    async def end(self, timeout_ms: int | None, transaction_timeout_ms: int) -> None:
        """Abort an open transaction and wait for one that is ending, before the producer is closed.

        Waits at most `timeout_ms` (None: as long as it takes; 0: not at all). A transaction whose end is not
        known then is logged; its coordinator aborts it after `transaction_timeout_ms`.
        """
        manager = self.manager
        if timeout_ms == 0:
            return
        if manager.can_abort:
            manager.begin_abort(is_v2=self._driver.is_v2)
        try:
            await self._driver.wait_until(
                lambda: not manager.is_ending, "the end of the transaction", timeout_ms
            )
        except KafkaError as error:
            text = (
                "%r is closed: %s; if it was not ended, its coordinator aborts it %d ms after its beginning"
            )
            _log.warning(text, manager.transactional_id, error, transaction_timeout_ms)

    async def _finish(self, operation: Operation, timeout_ms: int | None) -> None:
        manager = self.manager
        begun = manager.begun
        assert begun is not None and begun.operation is operation
        await self._driver.wait_until(lambda: begun.has_ended, operation.value, timeout_ms)
        manager.claim(begun)
