"""Fetches records (shell): one task that resets and validates positions and sends fetch requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.consumer_types import FetchPosition
from tidelog.clients.consumer.fetcher import Fetcher
from tidelog.clients.consumer.offset_requests import EpochEndOffsets, OffsetsByTimestamp
from tidelog.clients.consumer.partition_state import AssignedPartitions, FetchState, PartitionState
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.metadata.leader_requests import send_to_leaders
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse
from tidelog.protocol.messages.offset_for_leader_epoch import EpochEndOffset
from tidelog.protocol.schema import ApiMessage

_log = logging.getLogger("tidelog.clients.consumer.consumer")
_LONGEST_SLEEP_MS = 60_000


class FetchDriver:
    """The fetching task of one consumer; `data_arrived` is set when `Fetcher.take` may return records.

    `failure` is the error that ended the task; None while it runs.
    """

    def __init__(
        self,
        client: ClusterClient,
        config: ConsumerConfig,
        assigned: AssignedPartitions,
        fetcher: Fetcher,
    ) -> None:
        self._client = client
        self._config = config
        self._assigned = assigned
        self._fetcher = fetcher
        self.data_arrived = asyncio.Event()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookups: set[TopicPartition] = set()
        self._is_closed = False
        self.failure: KafkaError | None = None

    def start(self) -> None:
        """Start the task; called once."""
        assert self._task is None
        self._client.updater.on_update.append(self._on_metadata)
        self._task = asyncio.create_task(self._run(), name="tidelog-fetcher")
        self._task.add_done_callback(self._on_end)

    def wake(self) -> None:
        """Make the task check again which partitions can be fetched."""
        self._wake.set()

    async def close(self) -> None:
        """Stop the task, and close the fetch sessions at the brokers."""
        self._is_closed = True
        tasks = [task for task in (self._task, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node_id, request in self._fetcher.closing_requests().items():
            connection = self._client.network.ready_connection(node_id)
            if connection is not None:
                with suppress(KafkaError):
                    connection.send(request, connection.version_of(request.api_key))

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Report an end of the task that is not caused by `close`: that is an internal error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("Fetcher task ended by an internal error", exc_info=error)
            self.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"fetcher task ended: {error!r}")
            self.data_arrived.set()

    def _on_metadata(self) -> None:
        for state in self._assigned:
            state.on_leader_changed(self._client.metadata.leader_epoch(state.topic_partition))
        self.wake()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now_ms = self._client.now_ms()
            self._look_up_positions(now_ms)
            for node_id, states in self._fetcher.plan(now_ms).items():
                self._fetch(node_id, states)
            if self._fetcher.has_unknown_leader():
                self._client.updater.request_update()
            wait_ms = self._fetcher.next_retry_ms(now_ms)
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    max(1, min(wait_ms or _LONGEST_SLEEP_MS, _LONGEST_SLEEP_MS)) / 1000
                ):
                    await self._wake.wait()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("A task of the fetcher ended by an internal error", exc_info=error)
        self.wake()

    # --- fetching -------------------------------------------------------------------------

    def _fetch(self, node_id: BrokerId, states: list[PartitionState]) -> None:
        connection = self._client.network.ready_connection(node_id)
        if connection is None:
            if not self._client.network.is_connecting(node_id):
                self._start_task(self._connect(node_id))
            return
        request, highest_version = self._fetcher.request(node_id, states)
        self._send(connection, node_id, request, highest_version)

    def _send(
        self, connection: BrokerConnection, node_id: BrokerId, request: FetchRequest, highest: int | None
    ) -> None:
        try:
            version = connection.version_of(request.api_key, highest)
            timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
            future = connection.send(request, version, timeout_ms=timeout_ms)
        except KafkaError as error:
            _log.info("Fetch from broker %d failed: %s; retrying", node_id, error)
            self._fetcher.on_failure(node_id, self._client.now_ms())
            self._client.updater.request_update()
            return
        future.add_done_callback(partial(self._on_response, node_id))

    def _on_response(self, node_id: BrokerId, future: asyncio.Future[ApiMessage]) -> None:
        if future.cancelled() or self._is_closed:
            return
        now_ms = self._client.now_ms()
        error = future.exception()
        if error is not None:
            _log.info("Fetch from broker %d failed: %s; retrying", node_id, error)
            self._fetcher.on_failure(node_id, now_ms)
            self._client.updater.request_update()
        else:
            response = future.result()
            assert isinstance(response, FetchResponse)
            if self._fetcher.on_response(node_id, response, now_ms):
                self._client.updater.request_update()
        self.data_arrived.set()
        self.wake()

    async def _connect(self, node_id: BrokerId) -> None:
        try:
            await self._client.network.connection(node_id)
        except (KafkaError, OSError) as error:
            _log.info("%s", error)
            self._client.updater.request_update()
            await asyncio.sleep(self._client.network.retry_in_ms(node_id) / 1000)

    # --- positions ------------------------------------------------------------------------

    def _look_up_positions(self, now_ms: int) -> None:
        resets: dict[TopicPartition, PartitionState] = {}
        validations: dict[TopicPartition, PartitionState] = {}
        for state in self._assigned:
            topic_partition = state.topic_partition
            if topic_partition in self._lookups or state.retry_at_ms > now_ms or state.error is not None:
                continue
            if state.state is FetchState.AWAIT_RESET:
                resets[topic_partition] = state
            elif state.state is FetchState.AWAIT_VALIDATION:
                validations[topic_partition] = state
        self._lookups |= resets.keys() | validations.keys()
        if resets:
            self._start_task(self._reset(resets))
        if validations:
            self._start_task(self._validate(validations))

    async def _reset(self, states: dict[TopicPartition, PartitionState]) -> None:
        """Request the offsets of partitions that are reset, and set their positions."""
        try:
            timestamps = {tp: state.reset_timestamp for tp, state in states.items()}
            requested = {tp: timestamp for tp, timestamp in timestamps.items() if timestamp is not None}
            generations = {tp: state.generation for tp, state in states.items()}
            api = OffsetsByTimestamp(
                requested,
                self._client.metadata,
                read_committed=self._config.read_committed,
                timeout_ms=self._config.request_timeout_ms,
            )
            deadline_ms = self._client.now_ms() + self._config.request_timeout_ms
            responses = await send_to_leaders(self._client, requested, api, deadline_ms)
            for topic_partition, state in states.items():
                if state.generation != generations[topic_partition]:
                    continue
                if topic_partition in responses.errors:
                    self._look_up_failed(state, responses.errors[topic_partition])
                    continue
                offset = responses.results[topic_partition].offset
                epoch = self._client.metadata.leader_epoch(topic_partition)
                state.seek(FetchPosition(max(0, offset), leader_epoch=epoch), epoch)
        finally:
            self._lookups -= states.keys()
        self.data_arrived.set()

    async def _validate(self, states: dict[TopicPartition, PartitionState]) -> None:
        """Check whether the positions are still in the leaders' logs (KIP-320)."""
        try:
            positions = {tp: state.position for tp, state in states.items()}
            epochs = {tp: at.offset_epoch for tp, at in positions.items() if at is not None}
            generations = {tp: state.generation for tp, state in states.items()}
            leader_epochs = {tp: self._client.metadata.leader_epoch(tp) for tp in states}
            deadline_ms = self._client.now_ms() + self._config.request_timeout_ms
            api = EpochEndOffsets(epochs, self._client.metadata)
            responses = await send_to_leaders(self._client, epochs, api, deadline_ms)
            for topic_partition, state in states.items():
                if state.generation != generations[topic_partition]:
                    continue
                if topic_partition in responses.errors:
                    self._look_up_failed(state, responses.errors[topic_partition])
                    continue
                self._apply_validation(
                    state, responses.results[topic_partition], leader_epochs[topic_partition]
                )
        finally:
            self._lookups -= states.keys()
        self.data_arrived.set()

    def _apply_validation(self, state: PartitionState, end: EpochEndOffset, leader_epoch: int) -> None:
        """Keep the position, or return to the offset at which the leader's log diverges."""
        position = state.position
        assert position is not None
        unknown = end.end_offset < 0 or end.leader_epoch < 0
        if not unknown and end.end_offset >= position.offset:
            state.on_validated(leader_epoch)
            return
        timestamp = self._fetcher.reset_timestamp
        if timestamp is None:
            text = (
                f"the log of {state.topic_partition} was truncated below position {position.offset}:"
                f" it diverges at {end.end_offset}"
            )
            state.fail(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text))
        elif unknown:
            state.await_reset(timestamp)
        else:
            _log.warning("%s was truncated; position reset to %d", state.topic_partition, end.end_offset)
            state.seek(FetchPosition(end.end_offset, end.leader_epoch, leader_epoch), leader_epoch)

    def _look_up_failed(self, state: PartitionState, error: KafkaError) -> None:
        if error.code.retriable:
            _log.info("Cannot look up the offset of %s: %s; retrying", state.topic_partition, error)
            delay_ms = self._client.backoff.delay_ms(0, self._client.environment.rng)
            state.back_off(self._client.now_ms() + delay_ms)
        else:
            state.fail(error)
