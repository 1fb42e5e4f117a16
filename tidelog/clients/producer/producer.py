"""The producer: give it records, it writes them in batches and tells where each one went (shell).

    async with Producer("localhost:9092", compression_type="zstd") as producer:
        delivery = await producer.send("tides", b"high", key=b"brest")
        written = await delivery            # RecordMetadata(topic, partition, offset, timestamp)

`send` returns as soon as the record is in its batch; the delivery future tells its fate. Records for
one partition keep the order in which they were sent, also across retries, and are written once
(`enable_idempotence`, on by default).
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
from tidelog.clients.producer.accumulator import RecordAccumulator, record_size_bound
from tidelog.clients.producer.memory_line import MemoryLine
from tidelog.clients.producer.partitioner import partition_for_key
from tidelog.clients.producer.produce_core import ProduceCore
from tidelog.clients.producer.producer_batch import RecordMetadata
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.clients.producer.producer_topics import ProducerTopics, TopicState
from tidelog.clients.producer.producer_transactions import ProducerTransactions
from tidelog.clients.producer.record_checks import refuse_bad_record, refuse_bad_timestamp, too_large
from tidelog.clients.producer.sender import Sender
from tidelog.clients.producer.transaction_driver import TransactionDriver
from tidelog.clients.transactions.transaction_manager import TransactionManager
from tidelog.clients.transport.connection import Authenticator
from tidelog.clients.transport.progress import Progress
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.record import RecordHeader

_BATCHES_BEFORE_YIELD = 8
# What encoding a record of wrong types ends in; checking the types of every good one would cost more.
_ENCODING_ERRORS = (TypeError, AttributeError, ValueError)

DeliveryFuture = asyncio.Future[RecordMetadata]


class Producer:
    """An asyncio producer; use it as an async context manager, or call `start` and `close`.

    Leaving the context delivers what was sent, after an error within `request_timeout_ms`; a task that is
    cancelled gives it up.
    Options are those of `ProducerConfig` (Kafka's names with underscores).
    Errors: KafkaError everywhere; a delivery that fails has the broker's error code.
    Bounds: `buffer_memory` for unsent records; `send` waits at most `max_block_ms` for room.
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
        self._states: dict[str, TopicState] = {}
        self._line = MemoryLine()
        self._largest_record = min(config.max_request_size, config.buffer_memory)
        self._uses_keys = not config.partitioner_ignore_keys
        self._progress = Progress()
        self._new_batches = 0
        self._is_closed = False
        self._takes_records = True
        self._started = False

    # --- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster; KafkaError when none of the bootstrap servers answers in time."""
        if self._started:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer is started once")
        config = self.config
        self._loop = asyncio.get_running_loop()
        self._client = ClusterClient(
            config,
            self._environment,
            self._authenticator,
            allow_auto_topic_creation=True,
            max_idle_ms=config.metadata_max_idle_ms,
        )
        environment = self._client.environment
        identity = ProducerIdentity() if config.enable_idempotence else None
        manager = None
        if config.transactional_id is not None:
            manager = TransactionManager(config.transactional_id, config.transaction_timeout_ms)
            identity = manager.identity
        self._accumulator = RecordAccumulator(
            batch_size=config.batch_size,
            linger_ms=config.linger_ms,
            buffer_memory=config.buffer_memory,
            retry_backoff=self._client.backoff,
            rng=environment.rng,
            delivery_timeout_ms=config.delivery_timeout_ms,
            compression=Compression[config.compression_type.upper()],
            compression_level=config.compression_level,
            identity=identity,
        )
        self._topics = ProducerTopics(self._states, config, self._client, self._accumulator)
        core = ProduceCore(
            self._accumulator,
            identity,
            retries=config.retries,
            delivery_timeout_ms=config.delivery_timeout_ms,
            max_request_size=config.max_request_size,
            keep_order=config.max_in_flight_requests_per_connection == 1,
        )
        updater = self._client.updater
        network = self._client.network
        self._sender = Sender(core, config, updater, network, environment, self._on_progress, manager)
        if manager is not None:
            driver = TransactionDriver(manager, core, self._client, config, self._on_transaction)
            self._transactions = ProducerTransactions(manager, driver, self._check_usable)
        await self._client.open(self._client.now_ms() + config.max_block_ms)
        updater.on_update.append(self._topics.refresh)
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
            # What was sent before an error is not its fault; a task that is cancelled has no time.
            in_a_hurry = not isinstance(exc, Exception)
            await self.close(timeout_ms=0 if in_a_hurry else self.config.request_timeout_ms)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send what is buffered without lingering and await its fate.

        Deliveries that fail do not make `flush` fail. KafkaError(REQUEST_TIMED_OUT) after `timeout_ms`.
        """
        if not self._started:
            self._check_usable()
        serial = self._accumulator.begin_flush()
        self._sender.wake()
        try:
            await self._progress.wait_until(lambda: self._accumulator.is_flushed(serial), timeout_ms)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no end of flush in {timeout_ms} ms") from None
        finally:
            self._accumulator.end_flush()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Flush for at most `timeout_ms` (None: as long as deliveries take), then stop.

        An open transaction is aborted.
        What is left then fails with NETWORK_EXCEPTION, also when the task that closes is cancelled.
        """
        if not self._started or self._is_closed:
            return
        self._is_closed = True
        self._takes_records = False
        self._accumulator.close()
        self._line.wake()  # who waits for room is refused now, one after the other
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
        """Put a record into its batch; await the returned future to learn where it was written.

        Waits for the topic's metadata and for room in `buffer_memory`, at most `max_block_ms`.
        `timestamp_ms` None is now. Errors: KafkaError(MESSAGE_TOO_LARGE) for a record over
        `max_request_size`, KafkaError(REQUEST_TIMED_OUT) when there is no room in time, TypeError for a
        value, key or header that is not bytes, or a timestamp that is no whole number.
        """
        future = None
        try:
            if self._line.is_empty:
                future = self._enqueue(topic, value, key, headers, partition, timestamp_ms)
            if future is None:
                future = await self._enqueue_later(topic, value, key, headers, partition, timestamp_ms)
        except (KafkaError, *_ENCODING_ERRORS) as error:
            self._refuse(error, value, key, headers)
            raise
        if self._new_batches >= _BATCHES_BEFORE_YIELD:
            # A loop of sends that never waits would starve the sender.
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
        """Like `send` without waiting; None when the topic's metadata or room in memory is missing.

        The caller has to let the event loop run from time to time.
        """
        if not self._line.is_empty:
            return None
        try:
            return self._enqueue(topic, value, key, headers, partition, timestamp_ms)
        except (KafkaError, *_ENCODING_ERRORS) as error:
            self._refuse(error, value, key, headers)
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
        """Send one record and await where it was written."""
        delivery = await self.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """The partitions of `topic`; awaits its metadata."""
        state = self._states.get(topic) or await self._load_topic(topic, self._block_deadline_ms())
        return tuple(state.metadata.partitions)

    # --- transactions ---------------------------------------------------------------------

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Register the transactional id; see `ProducerTransactions.init_transactions`."""
        await self._require_transactions().init_transactions(timeout_ms)

    def begin_transaction(self) -> None:
        """Open a transaction; records that are sent from now on belong to it."""
        self._require_transactions().begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction; see `ProducerTransactions`."""
        transactions = self._require_transactions()
        await transactions.send_offsets_to_transaction(offsets, group_metadata, timeout_ms)

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Write everything that was sent, then commit it; see `ProducerTransactions.commit_transaction`."""
        await self._require_transactions().commit_transaction(timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Drop what was not sent and hide what was; see `ProducerTransactions.abort_transaction`."""
        await self._require_transactions().abort_transaction(timeout_ms)

    @asynccontextmanager
    async def transaction(self, commit_timeout_ms: int | None = None) -> AsyncIterator[None]:
        """Open a transaction for a block: committed at its end, aborted after an exception.

        See `ProducerTransactions.transaction`.
        """
        async with self._require_transactions().transaction(commit_timeout_ms):
            yield

    # --- inside ---------------------------------------------------------------------------

    def _require_transactions(self) -> ProducerTransactions:
        """Return the transactions of this producer; raise KafkaError without a transactional id."""
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
        """Return the transaction that takes records, 0 without a transactional id.

        Raises KafkaError if none is open, or if another one than `transaction` is.
        """
        self._check_usable()
        return 0 if self._transactions is None else self._transactions.manager.require_open(transaction)

    def _refuse(
        self, error: Exception, value: bytes | None, key: bytes | None, headers: Sequence[RecordHeader]
    ) -> None:
        """Explain why a record was refused, and keep its transaction from being committed."""
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
        """Append if topic and memory allow; None if the caller has to wait."""
        transactions = self._transactions
        state = self._states.get(topic)
        is_open = transactions is None or transactions.manager.is_open
        if state is None or not self._takes_records or not is_open:
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
            timestamp_ms = environment.wall_clock_ms()
        else:
            refuse_bad_timestamp(timestamp_ms)
        future: DeliveryFuture = self._loop.create_future()
        accumulator = self._accumulator
        is_new = not accumulator.append(queue, timestamp_ms, key, value, headers, future, size)
        if is_new:
            now_ms = environment.monotonic_ms()
            record = (timestamp_ms, key, value, headers, future)
            if not accumulator.append_to_new(queue, *record, size, now_ms):
                return None
            state.was_used = True
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
        """Wait for metadata or memory, in line with earlier waiters, then append to the same transaction."""
        deadline_ms = self._block_deadline_ms()
        transaction = self._check_sendable()
        try:
            if topic not in self._states:
                await self._load_topic(topic, deadline_ms)
            at_front = False
            if not self._line.is_empty:
                await self._wait_for_memory(deadline_ms, at_front=False)
                at_front = True
            while True:
                try:
                    self._check_sendable(transaction)
                    future = self._enqueue(topic, value, key, headers, partition, timestamp_ms)
                except BaseException:
                    self._line.wake()  # what cannot be sent needs no room: it is the next one's turn
                    raise
                if future is not None:
                    self._line.wake()
                    return future
                await self._wait_for_memory(deadline_ms, at_front=at_front)
                at_front = True
        except KafkaError:
            self._check_sendable(transaction)  # whatever it was, it is not the fault of a later transaction
            raise

    async def _wait_for_memory(self, deadline_ms: int, *, at_front: bool) -> None:
        """Stand in line until a batch is done."""
        self._accumulator.memory_waiters += 1
        self._sender.wake()
        try:
            await self._line.wait(deadline_ms - self._client.now_ms(), at_front=at_front)
        except TimeoutError:
            text = (
                f"no room in buffer_memory={self.config.buffer_memory} bytes within"
                f" max_block_ms={self.config.max_block_ms}"
            )
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        finally:
            self._accumulator.memory_waiters -= 1

    async def _load_topic(self, topic: str, deadline_ms: int) -> TopicState:
        self._check_usable()
        return await self._topics.load(topic, deadline_ms)

    def _on_transaction(self) -> None:
        """Batches may be sent that were not allowed before, or were dropped."""
        self._sender.wake()
        self._on_progress()

    def _on_progress(self) -> None:
        if self._transactions is not None:
            self._transactions.wake()
        if self._sender.has_ended:
            self._takes_records = False  # nobody would send them
        self._line.wake()
        self._progress.tell()

    def _block_deadline_ms(self) -> int:
        return self._client.now_ms() + self.config.max_block_ms
