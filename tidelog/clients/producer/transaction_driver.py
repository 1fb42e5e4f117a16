"""Sends the requests of a transactional producer to its coordinators, one at a time (shell)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog.clients.config.client_config import ProducerConfig
from tidelog.clients.groups.coordinator_lookup import TRANSACTION_KEY_TYPE, CoordinatorLookup
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.producer.produce_core import ProduceCore
from tidelog.clients.transactions.transaction_manager import Step, TransactionManager
from tidelog.clients.transactions.transaction_requests import CoordinatorRequest
from tidelog.clients.transport.progress import Progress
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.schema import ApiMessage

_log = logging.getLogger("tidelog.clients.transactions")
_FEATURE = "transaction.version"
_SOON_MS = 20


class TransactionDriver:
    """The task that sends coordinator requests of one producer.

    `on_progress` is called when batches may be sent that were not allowed before, or were dropped.
    """

    def __init__(
        self,
        manager: TransactionManager,
        core: ProduceCore,
        client: ClusterClient,
        config: ProducerConfig,
        on_progress: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._core = core
        self._client = client
        self._config = config
        self._on_progress = on_progress
        self._lookup = CoordinatorLookup(client, manager.transactional_id, TRANSACTION_KEY_TYPE)
        self._group_lookup: CoordinatorLookup | None = None
        self._is_flushing = False
        self._has_failed_all = False
        self._wake = asyncio.Event()
        self._progress = Progress()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_v2(self) -> bool:
        """Whether the cluster has finalized transaction.version 2 (KIP-890)."""
        return self._client.network.features.level(_FEATURE) >= 2

    def start(self) -> None:
        """Start the task; called once."""
        assert self._task is None
        self._task = asyncio.create_task(self._run(), name="tidelog-transactions")
        self._task.add_done_callback(self._on_end)

    def wake(self) -> None:
        """Make the task check again which request is next."""
        self._wake.set()

    async def close(self) -> None:
        """Stop the task; calls of `wait_until` then raise."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def wait_until(self, is_done: Callable[[], bool], operation: str, timeout_ms: int | None) -> None:
        """Wait until `is_done` returns True.

        Raise KafkaError(REQUEST_TIMED_OUT) after `timeout_ms` (None: `max_block_ms`). The operation continues
        after the timeout, and when the waiting task is cancelled.
        """
        limit_ms = self._config.max_block_ms if timeout_ms is None else timeout_ms
        self.wake()
        try:
            await self._progress.wait_until(lambda: is_done() or self._has_ended, limit_ms)
        except TimeoutError:
            text = f"{operation} did not complete within {limit_ms} ms; it continues in the background"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        if not is_done():
            text = f"{operation}: the producer was closed before the result was known"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)

    @property
    def _has_ended(self) -> bool:
        return self._task is None or self._task.done()

    # --- the task -------------------------------------------------------------------------

    async def _run(self) -> None:
        attempt = 0
        while True:
            self._wake.clear()
            self._update_batches()
            request = self._manager.next_request(has_incomplete=bool(self._core.accumulator.incomplete))
            self._progress.notify()
            if request is None:
                await self._wake.wait()
                continue
            step = await self._send(request)
            self._update_batches()
            self._progress.notify()
            if step is Step.PROCEED:
                attempt = 0
                self._on_progress()
                continue
            delay_ms = self._client.backoff.delay_ms(attempt, self._client.environment.rng)
            await asyncio.sleep((_SOON_MS if step is Step.RETRY_SOON else delay_ms) / 1000)
            attempt += 1

    def _update_batches(self) -> None:
        """Flush, drop or fail the buffered batches, as the state of the transaction requires."""
        lifecycle, accumulator = self._manager.lifecycle, self._core.accumulator
        if lifecycle.is_ending and not self._is_flushing:
            self._is_flushing = True
            accumulator.begin_flush()
            self._on_progress()
        elif not lifecycle.is_ending and self._is_flushing:
            self._is_flushing = False
            accumulator.end_flush()
        if lifecycle.is_rolling_back:
            reason = lifecycle.error or KafkaError(
                ErrorCode.OPERATION_NOT_ATTEMPTED, "not sent: the transaction was aborted"
            )
            if self._core.drop_unsent(reason):
                self._on_progress()
        if lifecycle.is_fatal and not self._has_failed_all:
            self._has_failed_all = True
            assert lifecycle.error is not None
            self._core.fail_all(lifecycle.error)
            self._on_progress()

    async def _send(self, request: CoordinatorRequest) -> Step:
        """Send one request and pass its response to the manager."""
        lookup = self._lookup_for(request)
        sent_in: int | None = None

        def make(version: int) -> ApiMessage:
            nonlocal sent_in
            message = request.make(version)
            sent_in = version
            return message

        deadline_ms = self._client.now_ms() + self._config.request_timeout_ms
        try:
            response = await lookup.request_for_version(
                request.api_key, make, request.response, deadline_ms, highest_version=request.highest_version
            )
        except KafkaError as error:
            if not error.code.retriable:
                self._manager.on_not_sent(error)
                return Step.PROCEED
            _log.info(
                "%s for transactional id %r failed: %s; retrying",
                request.api_key.name,
                self._manager.transactional_id,
                error,
            )
            return self._manager.on_no_response(was_sent=sent_in is not None)
        assert sent_in is not None
        step = self._manager.on_response(response, sent_in)
        if step is Step.FIND_COORDINATOR:
            lookup.forget()
        return step

    def _lookup_for(self, request: CoordinatorRequest) -> CoordinatorLookup:
        if request.group_id is None:
            return self._lookup
        if self._group_lookup is None or self._group_lookup.key != request.group_id:
            self._group_lookup = CoordinatorLookup(self._client, request.group_id)
        return self._group_lookup

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Report an end of the task that is not caused by `close`: that is an internal error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("Transactions task ended by an internal error", exc_info=error)
            text = f"transactions task ended: {error!r}"
            self._manager.lifecycle.fail(ErrorCode.UNKNOWN_SERVER_ERROR, text)
            self._update_batches()
        self._progress.notify()
