"""Keeps `ClusterMetadata` fresh (shell): one task that asks some broker whenever the policy says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tidelog.clients.config.environment import Environment
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.metadata.refresh_policy import RefreshPolicy
from tidelog.clients.metadata.topic_names import require_topic_name
from tidelog.clients.transport.failures import STALE_METADATA, failure, known_code
from tidelog.clients.transport.network import Network
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_log = logging.getLogger("tidelog.clients.metadata.cluster_metadata")
_LONGEST_SLEEP_MS = 60_000


class MetadataUpdater:
    """Owns the refreshing task of one client.

    `on_update` callbacks run after every change of the metadata.
    """

    def __init__(
        self,
        metadata: ClusterMetadata,
        policy: RefreshPolicy,
        network: Network,
        environment: Environment,
        *,
        allow_auto_topic_creation: bool,
    ) -> None:
        self.metadata = metadata
        self.policy = policy
        self.on_update: list[Callable[[], None]] = []
        self._network = network
        self._environment = environment
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._waiters: set[asyncio.Future[None]] = set()
        self._last_error: KafkaError | None = None
        self._is_lost = False

    def start(self) -> None:
        """Start the task; once."""
        assert self._task is None
        self._task = asyncio.create_task(self._run(), name="tidelog-metadata")
        self._task.add_done_callback(self._on_end)

    async def close(self) -> None:
        """Stop the task; waiters get an error."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._notify(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the client is closed"))

    def request_update(self) -> None:
        """Refresh as soon as backoff allows."""
        self.policy.request()
        self._wake.set()

    def use_topic(self, topic: str) -> None:
        """Note that `topic` is in use, so that it is asked for."""
        self.policy.use_topic(topic, self._environment.monotonic_ms())
        self._wake.set()

    def set_topics(self, topics: set[str]) -> None:
        """Be interested in exactly these topics."""
        self.policy.set_topics(topics, self._environment.monotonic_ms())
        self._wake.set()

    async def wait_for_update(self, deadline_ms: int) -> None:
        """Await the next answer; TimeoutError after `deadline_ms` (monotonic)."""
        self._wake.set()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        try:
            async with asyncio.timeout(max(0, deadline_ms - self._environment.monotonic_ms()) / 1000):
                await future
        finally:
            self._waiters.discard(future)

    async def ready(self, deadline_ms: int) -> None:
        """Await the first metadata; an error names the servers that could not be reached."""
        while not self.metadata.brokers:
            # A node that has just begun to listen may not know of any broker yet, itself included.
            self.request_update()
            await self._update_or_explain("metadata of the cluster", deadline_ms)

    async def ensure_topic(self, topic: str, deadline_ms: int) -> None:
        """Await the metadata of `topic`.

        Errors: see `require_topic_name`; what the broker says about the topic if waiting does not help (not
        authorized, not a valid name); UNKNOWN_TOPIC_OR_PARTITION or the last network failure at the deadline.
        """
        require_topic_name(topic)
        while topic not in self.metadata.topics:
            self.use_topic(topic)
            self.request_update()
            await self._update_or_explain(f"metadata of topic {topic!r}", deadline_ms, topic)
            error = self.metadata.topic_errors.get(topic)
            if error is not None and known_code(error) not in STALE_METADATA:
                raise failure(error, f"topic {topic!r}")

    async def _update_or_explain(self, what: str, deadline_ms: int, topic: str | None = None) -> None:
        try:
            await self.wait_for_update(deadline_ms)
        except TimeoutError:
            error = self.metadata.topic_errors.get(topic) if topic is not None else None
            if error:
                raise failure(error, f"topic {topic!r}") from None
            if self._last_error is not None:
                text = f"{what} did not come in time: {self._last_error}"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{what} did not come in time") from None

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """The task ends only by `close`; anything else is our bug and must not go unseen."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("metadata task ended", exc_info=error)
            self._last_error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"metadata task ended: {error!r}")
            self._notify(self._last_error)

    async def _run(self) -> None:
        while True:
            due_ms = self.policy.due_in_ms(self._environment.monotonic_ms())
            if due_ms > 0:
                await self._sleep(min(due_ms, _LONGEST_SLEEP_MS))
                self._network.close_idle()
                continue
            try:
                await self._refresh()
            except (KafkaError, OSError) as error:
                self._log_failure(error)
                self._last_error = error if isinstance(error, KafkaError) else None
                self.policy.failed(self._environment.monotonic_ms())
                if isinstance(error, KafkaError) and not error.code.retriable:
                    self._notify(error)

    def _log_failure(self, error: Exception) -> None:
        """Warn once when a cluster that was there is lost; what keeps failing, or never began, is no news."""
        is_lost = bool(self.metadata.brokers) and not self._is_lost
        self._is_lost = self._is_lost or is_lost
        _log.log(logging.WARNING if is_lost else logging.INFO, "metadata refresh failed: %s", error)

    async def _sleep(self, duration_ms: int) -> None:
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(duration_ms / 1000):
                await self._wake.wait()

    async def _refresh(self) -> None:
        policy = self.policy
        connection = await self._network.any_connection()
        for topic in policy.expire_idle(self._environment.monotonic_ms()):
            self.metadata.forget(topic)
        policy.sent()
        full = policy.wants_all_topics
        names = policy.topics
        request = MetadataRequest(
            topics=None if full else tuple(MetadataRequestTopic(name=name) for name in names),
            allow_auto_topic_creation=self._allow_auto_topic_creation and not full,
        )
        response = await connection.request(request, MetadataResponse)
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, "metadata")
        self.metadata.apply(response, full=full)
        self._network.set_brokers(self.metadata.brokers.values())
        if self._is_lost:
            self._is_lost = False
            _log.warning("the cluster answers again")
        self._last_error = None
        policy.succeeded(self._environment.monotonic_ms(), fruitful=self._is_fruitful(names))
        for callback in self.on_update:
            callback()
        self._notify(None)

    def _is_fruitful(self, names: tuple[str, ...]) -> bool:
        """Whether everything asked for is there, with a leader for each partition."""
        topics = self.metadata.topics
        return all(
            name in topics and len(topics[name].available) == topics[name].partition_count for name in names
        )

    def _notify(self, error: KafkaError | None) -> None:
        for future in list(self._waiters):
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(KafkaError(error.code, str(error)))
