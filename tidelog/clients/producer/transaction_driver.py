"""Talks to the coordinators of one transactional producer (shell): one task, one request at a time."""

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
    """The coordinating task of one producer; `on_progress` runs when batches may be sent, or were dropped."""

    def __init__(
        self,
        manager: TransactionManager,
        core: ProduceCore,
        client: ClusterClient,
        config: ProducerConfig,
        on_progress: Callable[[], None],
    ) -> None:
        self.manager = manager
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
        """Whether the cluster has said that transaction.version 2 is in force (KIP-890)."""
        return self._client.network.features.level(_FEATURE) >= 2

    def start(self) -> None:
        """Start the task; once."""
        assert self._task is None
        self._task = asyncio.create_task(self._run(), name="tidelog-transactions")
        self._task.add_done_callback(self._on_end)

    def wake(self) -> None:
        """Look again at what is to be sent."""
        self._wake.set()

    async def close(self) -> None:
        """Stop at once; who waits is told."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def wait_until(self, is_done: Callable[[], bool], what: str, timeout_ms: int | None) -> None:
        """Wait for the task to get there; KafkaError(REQUEST_TIMED_OUT) after `timeout_ms` or `max_block_ms`.

        What was begun goes on after that, and when the task that waits is cancelled.
        """
        limit_ms = self._config.max_block_ms if timeout_ms is None else timeout_ms
        self.wake()
        try:
            await self._progress.wait_until(lambda: is_done() or self._has_ended, limit_ms)
        except TimeoutError:
            text = f"{what} did not end within {limit_ms} ms, and goes on"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        if not is_done():
            text = f"{what}: the producer was closed before its end was known"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)

    @property
    def _has_ended(self) -> bool:
        return self._task is None or self._task.done()

    # --- the task -------------------------------------------------------------------------

    async def _run(self) -> None:
        attempt = 0
        while True:
            self._wake.clear()
            self._settle_batches()
            request = self.manager.next_request(has_incomplete=bool(self._core.accumulator.incomplete))
            self._progress.tell()
            if request is None:
                await self._wake.wait()
                continue
            step = await self._ask(request)
            self._settle_batches()
            self._progress.tell()
            if step is Step.PROCEED:
                attempt = 0
                self._on_progress()
                continue
            delay_ms = self._client.backoff.delay_ms(attempt, self._client.environment.rng)
            await asyncio.sleep((_SOON_MS if step is Step.RETRY_SOON else delay_ms) / 1000)
            attempt += 1

    def _settle_batches(self) -> None:
        """Hurry, drop or fail what is buffered, as the state of the transaction demands."""
        manager, accumulator = self.manager, self._core.accumulator
        if manager.is_ending and not self._is_flushing:
            self._is_flushing = True
            accumulator.begin_flush()
            self._on_progress()
        elif not manager.is_ending and self._is_flushing:
            self._is_flushing = False
            accumulator.end_flush()
        if manager.is_rolling_back:
            reason = manager.error or KafkaError(
                ErrorCode.OPERATION_NOT_ATTEMPTED, "not sent: the transaction was aborted"
            )
            if self._core.drop_unsent(reason):
                self._on_progress()
        if manager.is_fatal and not self._has_failed_all:
            self._has_failed_all = True
            assert manager.error is not None
            self._core.fail_all(manager.error)
            self._on_progress()

    async def _ask(self, request: CoordinatorRequest) -> Step:
        """Send one request and hand its answer to the manager."""
        lookup = self._lookup_for(request)
        sent_in: int | None = None

        def make(version: int) -> ApiMessage:
            nonlocal sent_in
            message = request.make(version)
            sent_in = version
            return message

        deadline_ms = self._client.now_ms() + self._config.request_timeout_ms
        try:
            response = await lookup.request(
                request.api_key, make, request.response, deadline_ms, highest_version=request.highest_version
            )
        except KafkaError as error:
            if not error.code.retriable:
                self.manager.refused(error)
                return Step.PROCEED
            _log.info("%s of %r: %s", request.api_key.name, self.manager.transactional_id, error)
            return self.manager.lost(was_sent=sent_in is not None)
        assert sent_in is not None
        step = self.manager.answered(response, sent_in)
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
        """The task ends only by `close`; anything else is our bug and must not go unseen."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("transactions task ended", exc_info=error)
            self.manager.give_up(f"transactions task ended: {error!r}")
            self._settle_batches()
        self._progress.tell()
