"""Sends the batches that are ready to the leaders of their partitions (shell), in one task.

At most `max_in_flight_requests_per_connection` requests to one node are in flight. `ProduceCore` has the
rules about retries, order and identity; this file has the connections, the responses and the wake-ups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from uuid import UUID

from tidelog.clients.config.client_config import ProducerConfig
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.producer.accumulator import Readiness
from tidelog.clients.producer.produce_core import BatchResult, ProduceCore, produce_request
from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.transactions.transaction_manager import TransactionManager
from tidelog.clients.transactions.transaction_requests import PRODUCE_HIGHEST_V1
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.clients.transport.failures import failure, is_retriable
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ZERO_UUID, ApiMessage

_log = logging.getLogger("tidelog.clients.producer.producer")
_HIGHEST_VERSION_BY_NAME = 12
_LONGEST_SLEEP_MS = 60_000


class Sender:
    """The sending task of one producer.

    `on_progress` is called when batches are done, so that calls that wait for memory or a flush check again.
    """

    def __init__(
        self,
        core: ProduceCore,
        config: ProducerConfig,
        client: ClusterClient,
        on_progress: Callable[[], None],
        transactions: TransactionManager | None = None,
    ) -> None:
        self._transactions = transactions
        self._core = core
        self._config = config
        self._client = client
        self._updater = client.updater
        self._metadata = client.metadata
        self._network = client.network
        self._on_progress = on_progress
        self._acks = config.required_acks
        self._max_in_flight = config.max_in_flight_requests_per_connection
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connect_tasks: set[asyncio.Task[None]] = set()
        self._identity_task: asyncio.Task[None] | None = None
        self._fatal: KafkaError | None = None

    def start(self) -> None:
        """Start the task; called once."""
        assert self._task is None
        self._updater.on_update.append(self.wake)
        self._task = asyncio.create_task(self._run(), name="tidelog-sender")
        self._task.add_done_callback(self._on_end)

    def wake(self) -> None:
        """Make the task check again which batches are ready."""
        self._wake.set()

    async def close(self) -> None:
        """Stop the task; the remaining batches fail."""
        tasks = [task for task in (self._task, self._identity_task, *self._connect_tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._core.fail_all(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed"))
        self._on_progress()

    @property
    def fatal_error(self) -> KafkaError | None:
        """The error after which no batch can be sent; None while batches can be sent."""
        return self._fatal

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended, by `close` or by an internal error."""
        return self._task is not None and self._task.done()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Report an end of the task that is not caused by `close`: that is an internal error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("Sender task ended by an internal error", exc_info=error)
            self._fatal = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"sender task ended: {error!r}")
            self._core.fail_all(self._fatal)
            self._on_progress()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait_ms = self._round(self._client.now_ms())
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait_ms, _LONGEST_SLEEP_MS) / 1000):
                    await self._wake.wait()

    def _round(self, now_ms: int) -> int:
        """Send all batches that can be sent now; return the time until the next check in ms."""
        core = self._core
        if core.expire(now_ms, self._connection_error):
            self._on_progress()
        readiness = core.ready(self._metadata, now_ms)
        identity = core.identity
        needs_id = identity is not None and not (identity.has_id or identity.is_transactional)
        if needs_id and core.accumulator.incomplete:
            self._ensure_identity()
        for topic in readiness.unknown_leader_topics:
            self._updater.use_topic(topic)
            self._updater.request_update()
        wait_ms = min(readiness.next_check_ms, core.accumulator.next_expiry_ms(now_ms))
        for node_id in readiness.nodes:
            self._send_to(node_id, readiness, now_ms)
        return max(1, wait_ms)

    def _connection_error(self, topic_partition: TopicPartition) -> str:
        """Return why batches of a partition cannot be sent now; '' if that is unknown."""
        leader = self._metadata.leader(topic_partition)
        if leader is not None:
            return self._network.last_error(leader) or ""
        error = self._metadata.topic_errors.get(topic_partition.topic, ErrorCode.LEADER_NOT_AVAILABLE)
        return str(failure(error, f"the leader of {topic_partition}"))

    def _send_to(self, node_id: BrokerId, readiness: Readiness, now_ms: int) -> None:
        connection = self._network.ready_connection(node_id)
        if connection is None:
            if not self._network.is_connecting(node_id):
                self._start_connecting(node_id)
            return
        connection.call_when_writable(self.wake)
        queues = readiness.nodes[node_id]
        while queues and connection.can_send_more(self._max_in_flight):
            batches = self._core.drain(queues, self._metadata)
            if not batches:
                return
            self._send(connection, batches)
            accumulator = self._core.accumulator
            queues = [queue for queue in queues if accumulator.is_sendable(queue, self._metadata, now_ms)]

    def _send(self, connection: BrokerConnection, batches: list[ProducerBatch]) -> None:
        topics = {batch.topic_partition.topic for batch in batches}
        # A topic that is recreated before the response has another id by then.
        names = {self._metadata.topic_id(topic): topic for topic in topics}
        config = self._config
        request = produce_request(
            batches, self._metadata, self._acks, config.request_timeout_ms, config.transactional_id
        )
        try:
            version = connection.version_of(ApiKey.PRODUCE, self._highest_version(by_name=ZERO_UUID in names))
            if self._acks == 0:
                connection.send_without_response(request, version)
                self._set_result(batches, BatchResult(ErrorCode.NONE))
                return
            future = connection.send(request, version)
        except KafkaError as error:
            self._set_result(batches, BatchResult(error.code, error_message=str(error)))
            return
        future.add_done_callback(partial(self._on_response, batches, names))

    def _highest_version(self, *, by_name: bool) -> int | None:
        """Return the highest usable version of Produce; None if every version is usable."""
        if self._transactions is not None and not self._transactions.is_v2:
            return PRODUCE_HIGHEST_V1
        return _HIGHEST_VERSION_BY_NAME if by_name else None

    def _on_response(
        self, batches: list[ProducerBatch], names: Mapping[UUID, str], future: asyncio.Future[ApiMessage]
    ) -> None:
        """Act on the response; `names` are those of the topic ids in the request."""
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
            self._set_result(batches, BatchResult(code, error_message=str(error)))
            self._updater.request_update()
            return
        response = future.result()
        assert isinstance(response, ProduceResponse)
        entries = _entries(response, names)
        now_ms = self._client.now_ms()
        for batch in batches:
            entry = entries.get(batch.topic_partition)
            if entry is None:
                text = f"the Produce response has no entry for {batch.topic_partition}"
                result = BatchResult(ErrorCode.UNKNOWN_SERVER_ERROR, error_message=text)
            else:
                result = BatchResult(
                    entry.error_code,
                    entry.base_offset,
                    entry.log_append_time_ms,
                    entry.log_start_offset,
                    entry.error_message,
                )
            if self._core.on_result(batch, result, now_ms):
                self._use_leader_hint(batch.topic_partition, entry, response)
        self._after_results()

    def _use_leader_hint(
        self,
        topic_partition: TopicPartition,
        entry: PartitionProduceResponse | None,
        response: ProduceResponse,
    ) -> None:
        """Use the leader that the response names (KIP-951), and request new metadata in any case."""
        if entry is not None and entry.current_leader.leader_id >= 0:
            leader = entry.current_leader
            endpoints = [
                BrokerAddress(node.node_id, node.host, node.port, node.rack)
                for node in response.node_endpoints
            ]
            if self._metadata.update_leader(
                topic_partition, leader.leader_id, leader.leader_epoch, endpoints
            ):
                self._network.set_brokers(self._metadata.brokers.values())
        self._updater.request_update()

    def _set_result(self, batches: list[ProducerBatch], result: BatchResult) -> None:
        now_ms = self._client.now_ms()
        for batch in batches:
            if self._core.on_result(batch, result, now_ms):
                self._updater.request_update()
        self._after_results()

    def _after_results(self) -> None:
        self._on_progress()
        self.wake()

    def _start_connecting(self, node_id: BrokerId) -> None:
        task = asyncio.create_task(self._connect(node_id))
        self._connect_tasks.add(task)
        task.add_done_callback(self._connect_tasks.discard)

    async def _connect(self, node_id: BrokerId) -> None:
        try:
            await self._network.connection(node_id)
        except (KafkaError, OSError) as error:
            _log.info("%s", error)
            self._updater.request_update()
            # Wait for the network's backoff; otherwise this task would retry in a busy loop.
            await asyncio.sleep(self._network.retry_in_ms(node_id) / 1000)
        self.wake()

    def _ensure_identity(self) -> None:
        if self._identity_task is None or self._identity_task.done():
            self._identity_task = asyncio.create_task(self._get_producer_id(), name="tidelog-producer-id")

    async def _get_producer_id(self) -> None:
        """Request a producer id until one is assigned; a fatal error fails all queued batches."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        attempt = 0
        while True:
            try:
                response = await self._network.request(None, request, InitProducerIdResponse)
                if response.error_code != ErrorCode.NONE:
                    raise failure(response.error_code, "InitProducerId")
                assert self._core.identity is not None
                self._core.identity.set_id(response.producer_id, response.producer_epoch)
                self.wake()
                return
            except (KafkaError, OSError) as error:
                if not is_retriable(error):
                    assert isinstance(error, KafkaError)
                    self._fatal = error
                    self._core.fail_all(error)
                    self._on_progress()
                    return
                _log.info("InitProducerId failed: %s; retrying", error)
            await asyncio.sleep(self._client.backoff.delay_ms(attempt, self._client.environment.rng) / 1000)
            attempt += 1


def _entries(
    response: ProduceResponse, names: Mapping[UUID, str]
) -> dict[TopicPartition, PartitionProduceResponse]:
    """Return the entries of the response by partition; new versions have topic ids instead of names."""
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), entry.index): entry
        for topic in response.responses
        for entry in topic.partition_responses
    }
