"""The producer: writes records to topics in batches (shell).

    async with Producer("localhost:9092", compression_type="zstd") as producer:
        delivery = await producer.send("tides", b"high", key=b"brest")
        written = await delivery            # RecordMetadata(topic, partition, offset, timestamp)

`send` returns as soon as the record is in its batch; the returned future has the result of the write. Records
for one partition keep the order in which they were sent, also when batches are retried. With
`enable_idempotence`, the default, each record is written once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any

from tidelog.clients.config.client_config import ProducerConfig, make_config
from tidelog.clients.config.environment import Environment
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.producer.accumulator import BatchingSettings, RecordAccumulator, record_size_bound
from tidelog.clients.producer.memory_queue import MemoryQueue
from tidelog.clients.producer.partitioner import partition_for_key
from tidelog.clients.producer.produce_core import ProduceCore
from tidelog.clients.producer.producer_batch import RecordMetadata
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.clients.producer.producer_topics import ProducerTopics, TopicState
from tidelog.clients.producer.producer_transactions import ProducerTransactions
from tidelog.clients.producer.record_checks import refuse_bad_record, refuse_bad_timestamp, too_large
from tidelog.clients.producer.sender import Sender
from tidelog.clients.producer.transaction_driver import TransactionDriver
from tidelog.clients.producer.transactional_identity import TransactionalIdentity
from tidelog.clients.transactions.transaction_manager import TransactionManager
from tidelog.clients.transport.connection import Authenticator
from tidelog.clients.transport.progress import Progress
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.record import RecordHeader

_BATCHES_BEFORE_YIELD = 8
# Encoding a record of wrong types raises one of these; checking the types of each record would cost more.
_ENCODING_ERRORS = (TypeError, AttributeError, ValueError)

DeliveryFuture = asyncio.Future[RecordMetadata]


class Producer:
    """An asyncio producer; use it as an async context manager, or call `start` and `close`.

    The end of the context waits until all sent records are delivered: without a limit, after an error at most
    `request_timeout_ms`, and not at all if the task is cancelled.
    Options: see `ProducerConfig` (Kafka's names with underscores).
    Errors: KafkaError; a failed delivery has the broker's error code.
    Bounds: unsent records use at most `buffer_memory`; `send` waits at most `max_block_ms` for memory.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        environment: Environment | None = None,
        authenticator: Authenticator | None = None,
        **options: Any,
    ) -> None:
        config = make_config(ProducerConfig, {"bootstrap_servers": bootstrap_servers, **options})
        self.config = config
        self._environment = environment
        self._authenticator = authenticator
        self._transactions: ProducerTransactions | None = None
        self._states: Mapping[str, TopicState] = {}
        self._memory_queue = MemoryQueue()
        self._largest_record = min(config.max_request_size, config.buffer_memory)
        self._uses_keys = not config.partitioner_ignore_keys
        self._progress = Progress()
        self._new_batches = 0
        self._is_closed = False
        self._accepts_records = True
        self._started = False
        # Constructed by `start`, from scratch each time, because a closed client cannot be opened again.
        self._loop: asyncio.AbstractEventLoop
        self._client: ClusterClient
        self._accumulator: RecordAccumulator
        self._topics: ProducerTopics
        self._sender: Sender

    # --- start and close ------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster; raise KafkaError if no bootstrap server responds in time."""
        if self._started:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the producer was already started")
        config = self.config
        self._loop = asyncio.get_running_loop()
        self._client = ClusterClient(
            config,
            self._environment,
            self._authenticator,
            allow_auto_topic_creation=True,
            max_idle_ms=config.metadata_max_idle_ms,
        )
        identity = ProducerIdentity() if config.enable_idempotence else None
        manager = None
        if config.transactional_id is not None:
            manager = TransactionManager(config.transactional_id, config.transaction_timeout_ms)
            identity = TransactionalIdentity(manager)
        self._accumulator = RecordAccumulator(
            _batching_settings(config),
            retry_backoff=self._client.backoff,
            rng=self._client.environment.rng,
            identity=identity,
        )
        self._topics = ProducerTopics(config, self._client, self._accumulator)
        self._states = self._topics.states
        core = ProduceCore(
            self._accumulator,
            identity,
            retries=config.retries,
            delivery_timeout_ms=config.delivery_timeout_ms,
            max_request_size=config.max_request_size,
            keep_order=config.max_in_flight_requests_per_connection == 1,
        )
        self._sender = Sender(core, config, self._client, self._on_progress, manager)
        if manager is not None:
            driver = TransactionDriver(manager, core, self._client, config, self._on_transaction_progress)
            self._transactions = ProducerTransactions(manager, driver, self._check_usable)
        await self._client.open(self._client.now_ms() + config.max_block_ms)
        self._client.updater.on_update.append(self._topics.refresh)
        self._sender.start()
        if self._transactions is not None:
            self._transactions.start()
        self._started = True

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            await self.close()
        else:
            # Deliver the records that were sent before the error, except when the task is cancelled.
            is_cancelled = not isinstance(exc, Exception)
            await self.close(timeout_ms=0 if is_cancelled else self.config.request_timeout_ms)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send the buffered records without lingering, and wait until they are written or have failed.

        Failed deliveries do not make `flush` fail. Raise KafkaError(REQUEST_TIMED_OUT) after `timeout_ms`.
        """
        if not self._started:
            self._check_usable()
        serial = self._accumulator.begin_flush()
        self._sender.wake()
        try:
            await self._progress.wait_until(lambda: self._accumulator.is_flushed(serial), timeout_ms)
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"flush did not complete within {timeout_ms} ms"
            ) from None
        finally:
            self._accumulator.end_flush()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Abort an open transaction, flush for at most `timeout_ms` (None: no limit), then stop.

        The remaining records then fail with NETWORK_EXCEPTION, also if the calling task is cancelled.
        """
        if not self._started or self._is_closed:
            return
        self._is_closed = True
        self._accepts_records = False
        self._accumulator.close()
        self._memory_queue.wake()  # waiting calls now fail, one after the other
        try:
            if self._transactions is not None:
                await self._transactions.end(timeout_ms, self.config.transaction_timeout_ms)
            if timeout_ms != 0:
                with suppress(KafkaError):
                    await self.flush(timeout_ms)
        finally:
            if self._transactions is not None:
                await self._transactions.close()
            await self._sender.close()
            await self._client.close()

    # --- sending --------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[RecordHeader] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> DeliveryFuture:
        """Append a record to its batch; the returned future has the RecordMetadata once it is written.

        Wait for the topic's metadata and for memory, at most `max_block_ms`. `timestamp_ms` None means now.

        Errors: KafkaError(MESSAGE_TOO_LARGE) for a record larger than `max_request_size`;
        KafkaError(REQUEST_TIMED_OUT) if there is no memory in time; TypeError for a value, key or header that
        is not bytes, or a timestamp that is not an integer.
        """
        future = None
        try:
            if self._memory_queue.is_empty:
                future = self._enqueue(topic, value, key, headers, partition, timestamp_ms)
            if future is None:
                future = await self._enqueue_later(topic, value, key, headers, partition, timestamp_ms)
        except (KafkaError, *_ENCODING_ERRORS) as error:
            self._reject(error, value, key, headers)
            raise
        if self._new_batches >= _BATCHES_BEFORE_YIELD:
            # A loop of sends that never waits would not let the sender's task run.
            self._new_batches = 0
            await asyncio.sleep(0)
        return future

    def send_nowait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[RecordHeader] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> DeliveryFuture | None:
        """Append a record without waiting; return None if the topic's metadata or memory is missing.

        The caller has to let the event loop run from time to time. Errors: see `send`.
        """
        if not self._memory_queue.is_empty:
            return None
        try:
            return self._enqueue(topic, value, key, headers, partition, timestamp_ms)
        except (KafkaError, *_ENCODING_ERRORS) as error:
            self._reject(error, value, key, headers)
            raise

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[RecordHeader] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record, wait until it is written, and return its RecordMetadata."""
        delivery = await self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """Return the partitions of `topic`; wait for its metadata."""
        state = self._states.get(topic)
        if state is None:
            self._check_usable()
            state = await self._topics.load(topic, self._block_deadline_ms())
        return tuple(state.metadata.partitions)

    # --- transactions ---------------------------------------------------------------------

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Register the transactional id: abort its open transaction and fence other producers that use it.

        Call it once before the first transaction. Raise KafkaError(REQUEST_TIMED_OUT) after `timeout_ms`
        (None: `max_block_ms`); then call it again to continue waiting.
        """
        await self._require_transactions().init_transactions(timeout_ms)

    def begin_transaction(self) -> None:
        """Open a transaction; the records sent from now on are part of it."""
        self._require_transactions().begin_transaction()

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
        transactions = self._require_transactions()
        await transactions.send_offsets_to_transaction(offsets, group_metadata, timeout_ms)

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Write all sent records, then commit the transaction; wait at most `timeout_ms`.

        `timeout_ms` None means `max_block_ms`. After KafkaError(REQUEST_TIMED_OUT), or if the calling task
        was cancelled, it is unknown whether the transaction is committed; call it again for the result. After
        AbortableTransactionError, call `abort_transaction`.
        """
        await self._require_transactions().commit_transaction(timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Drop the records that were not sent, and abort the transaction, which hides those that were.

        Wait at most `timeout_ms` (None: `max_block_ms`). After KafkaError(REQUEST_TIMED_OUT), or if the
        calling task was cancelled, call it again.
        """
        await self._require_transactions().abort_transaction(timeout_ms)

    @asynccontextmanager
    async def transaction(self, commit_timeout_ms: int | None = None) -> AsyncIterator[None]:
        """Open a transaction for a block; commit it at the end, and abort it after an exception.

        A cancelled task also aborts it. If the commit fails, the transaction is aborted. A commit that is
        cancelled, or that takes longer than `commit_timeout_ms` (None: `max_block_ms`, which also limits an
        abort), continues; see `commit_transaction`.
        """
        async with self._require_transactions().transaction(commit_timeout_ms):
            yield

    # --- inside ---------------------------------------------------------------------------

    def _require_transactions(self) -> ProducerTransactions:
        """Return the transactions of this producer; raise KafkaError if it has no transactional id."""
        if self._transactions is None:
            self._check_usable()
            text = "transactions need the option transactional_id"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return self._transactions

    def _check_usable(self) -> None:
        """Raise KafkaError if the producer is not started, is closed or has failed for good."""
        if not self._started:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the producer is not started")
        if self._is_closed:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the producer is closed")
        if self._sender.fatal_error is not None:
            raise self._sender.fatal_error

    def _check_sendable(self, transaction: int | None = None) -> int:
        """Return the serial of the open transaction, or 0 without a transactional id.

        Raise KafkaError if no transaction is open, or if `transaction` is given and another one is open.
        """
        self._check_usable()
        return 0 if self._transactions is None else self._transactions.lifecycle.require_open(transaction)

    def _reject(
        self, error: Exception, value: bytes | None, key: bytes | None, headers: Sequence[RecordHeader]
    ) -> None:
        """Raise a TypeError that explains an encoding error; after another error, prevent the commit."""
        if not isinstance(error, KafkaError):
            refuse_bad_record(value, key, headers, error)
        elif self._transactions is not None and self._started:
            self._transactions.on_send_failed(error)

    def _enqueue(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[RecordHeader],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> DeliveryFuture | None:
        """Append a record; return None if the caller has to wait for metadata or memory."""
        transactions = self._transactions
        state = self._states.get(topic)
        is_open = transactions is None or transactions.lifecycle.is_open
        if state is None or not self._accepts_records or not is_open:
            self._check_sendable()
            return None
        size = record_size_bound(key, value, headers)
        if size > self._largest_record:
            raise too_large(size, self.config)
        is_sticky = False
        if partition is None:
            metadata = state.metadata
            if key is not None and self._uses_keys:
                partition = partition_for_key(key, len(metadata.partitions))
            else:
                is_sticky = True
                partition = state.partitioner.choose(metadata.available, len(metadata.partitions))
        queue = state.queues.get(partition)
        if queue is None:
            queue = self._topics.new_queue(state, partition)
        environment = self._client.environment
        if timestamp_ms is None:
            timestamp_ms = environment.wall_ms()
        else:
            refuse_bad_timestamp(timestamp_ms)
        future: DeliveryFuture = self._loop.create_future()
        accumulator = self._accumulator
        is_new = not accumulator.append(queue, timestamp_ms, key, value, headers, future, size)
        if is_new:
            now_ms = environment.monotonic_ms()
            record = (timestamp_ms, key, value, headers, future)
            if not accumulator.append_to_new(queue, record, size, now_ms):
                return None
            state.on_used()
            self._new_batches += 1
            self._sender.wake()
            if transactions is not None:
                transactions.add_partition(queue.topic_partition)
        if is_sticky:
            self._topics.count_sticky(state, size, is_ready=is_new and len(queue.batches) > 1)
        return future

    async def _enqueue_later(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[RecordHeader],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> DeliveryFuture:
        """Wait for metadata or memory, after earlier waiting calls, then append to the same transaction."""
        deadline_ms = self._block_deadline_ms()
        transaction = self._check_sendable()
        try:
            if topic not in self._states:
                await self._topics.load(topic, deadline_ms)
            at_front = False
            if not self._memory_queue.is_empty:
                await self._wait_for_memory(deadline_ms, at_front=False)
                at_front = True
            while True:
                try:
                    self._check_sendable(transaction)
                    future = self._enqueue(topic, value, key, headers, partition, timestamp_ms)
                except BaseException:
                    self._memory_queue.wake()  # this call needs no memory any more: wake the next one
                    raise
                if future is not None:
                    self._memory_queue.wake()
                    return future
                await self._wait_for_memory(deadline_ms, at_front=at_front)
                at_front = True
        except KafkaError:
            self._check_sendable(transaction)  # the error must not affect a later transaction
            raise

    async def _wait_for_memory(self, deadline_ms: int, *, at_front: bool) -> None:
        """Wait until a batch is done; raise KafkaError(REQUEST_TIMED_OUT) at `deadline_ms`."""
        with self._accumulator.memory_wait():
            self._sender.wake()
            try:
                await self._memory_queue.wait(deadline_ms - self._client.now_ms(), at_front=at_front)
            except TimeoutError:
                text = (
                    f"no memory in buffer_memory={self.config.buffer_memory} bytes within"
                    f" max_block_ms={self.config.max_block_ms}"
                )
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    def _on_transaction_progress(self) -> None:
        """Wake the sender: batches may be sent that were not allowed before, or were dropped."""
        self._sender.wake()
        self._on_progress()

    def _on_progress(self) -> None:
        if self._transactions is not None:
            self._transactions.wake()
        if self._sender.has_ended:
            self._accepts_records = False
        self._memory_queue.wake()
        self._progress.notify()

    def _block_deadline_ms(self) -> int:
        return self._client.now_ms() + self.config.max_block_ms


def _batching_settings(config: ProducerConfig) -> BatchingSettings:
    return BatchingSettings(
        batch_size=config.batch_size,
        linger_ms=config.linger_ms,
        buffer_memory=config.buffer_memory,
        delivery_timeout_ms=config.delivery_timeout_ms,
        compression=Compression[config.compression_type.upper()],
        compression_level=config.compression_level,
    )
