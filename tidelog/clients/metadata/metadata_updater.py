"""Refreshes `ClusterMetadata` (shell): one task that requests metadata when the policy requires it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from uuid import UUID

from tidelog.clients.config.environment import Environment
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.metadata.refresh_policy import RefreshPolicy
from tidelog.clients.metadata.topic_names import require_topic_name
from tidelog.clients.transport.failures import STALE_METADATA, copy_of, failure, known_code
from tidelog.clients.transport.network import Network
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.schema import ZERO_UUID

_log = logging.getLogger("tidelog.clients.metadata.cluster_metadata")
_LONGEST_SLEEP_MS = 60_000


class MetadataUpdater:
    """The task that refreshes the metadata of one client.

    `on_update` callbacks are called after every change of the metadata.
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
        """Start the task; called once."""
        assert self._task is None
        self._task = asyncio.create_task(self._run(), name="tidelog-metadata")
        self._task.add_done_callback(self._on_end)

    async def close(self) -> None:
        """Stop the task; waiting calls fail."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._notify(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the client is closed"))

    def request_update(self) -> None:
        """Request a refresh when the backoff has passed."""
        self.policy.request()
        self._wake.set()

    def use_topic(self, topic: str) -> None:
        """Record that `topic` is used, so that its metadata is requested."""
        self.policy.use_topic(topic, self._environment.monotonic_ms())
        self._wake.set()

    def set_topics(self, topics: set[str]) -> None:
        """Use exactly these topics."""
        self.policy.set_topics(topics, self._environment.monotonic_ms())
        self._wake.set()

    def find_names(self, topic_ids: Iterable[UUID]) -> None:
        """Find the names of exactly these topics; they are used when a response has them."""
        self.policy.find_names(topic_ids)
        if self.policy.unknown_ids:
            self._wake.set()

    async def wait_for_update(self, deadline_ms: int) -> None:
        """Wait for the next response; raise TimeoutError at `deadline_ms` (monotonic)."""
        self._wake.set()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        try:
            async with asyncio.timeout(max(0, deadline_ms - self._environment.monotonic_ms()) / 1000):
                await future
        finally:
            self._waiters.discard(future)

    async def ready(self, deadline_ms: int) -> None:
        """Wait for the first metadata; the error lists the servers that could not be reached."""
        while not self.metadata.brokers:
            # A node that has just started to listen may not have metadata of any broker yet.
            self.request_update()
            await self._wait_or_explain("metadata of the cluster", deadline_ms)

    async def ensure_topic(self, topic: str, deadline_ms: int) -> None:
        """Wait for the metadata of `topic`.

        Errors: see `require_topic_name`; an error of the broker that is not temporary (not authorized,
        invalid name); UNKNOWN_TOPIC_OR_PARTITION or REQUEST_TIMED_OUT at the deadline.
        """
        require_topic_name(topic)
        while topic not in self.metadata.topics:
            self.use_topic(topic)
            self.request_update()
            await self._wait_or_explain(f"metadata of topic {topic!r}", deadline_ms, topic)
            error = self.metadata.topic_errors.get(topic)
            if error is not None and known_code(error) not in STALE_METADATA:
                raise failure(error, f"topic {topic!r}")

    async def _wait_or_explain(self, subject: str, deadline_ms: int, topic: str | None = None) -> None:
        try:
            await self.wait_for_update(deadline_ms)
        except TimeoutError:
            error = self.metadata.topic_errors.get(topic) if topic is not None else None
            if error:
                raise failure(error, f"topic {topic!r}") from None
            if self._last_error is not None:
                text = f"timed out waiting for {subject}: {self._last_error}"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"timed out waiting for {subject}") from None

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """Report an end of the task that is not caused by `close`: that is an internal error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("Metadata task ended by an internal error", exc_info=error)
            self._last_error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"metadata task ended: {error!r}")
            self._notify(self._last_error)

    async def _run(self) -> None:
        while True:
            wait_ms = self.policy.next_refresh_ms(self._environment.monotonic_ms())
            if wait_ms > 0:
                await self._sleep(min(wait_ms, _LONGEST_SLEEP_MS))
                self._network.close_idle()
                continue
            try:
                await self._refresh()
            except (KafkaError, OSError) as error:
                self._log_failure(error)
                self._last_error = error if isinstance(error, KafkaError) else None
                self.policy.on_failure(self._environment.monotonic_ms())
                if isinstance(error, KafkaError) and not error.code.retriable:
                    self._notify(error)

    def _log_failure(self, error: Exception) -> None:
        """Log a failed refresh; warn once when the client loses a cluster that it had reached."""
        is_lost = bool(self.metadata.brokers) and not self._is_lost
        self._is_lost = self._is_lost or is_lost
        _log.log(logging.WARNING if is_lost else logging.INFO, "Metadata refresh failed: %s; retrying", error)

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
        policy.on_sent()
        full = policy.wants_all_topics
        names, topic_ids = policy.topics, policy.unknown_ids
        request = MetadataRequest(
            topics=None if full else self._requested(names, topic_ids),
            allow_auto_topic_creation=self._allow_auto_topic_creation and not (full or topic_ids),
        )
        response = await connection.request(request, MetadataResponse)
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, "Metadata")
        self.metadata.apply(response, full=full)
        for topic_id in topic_ids:
            name = self.metadata.topic_name(topic_id)
            if name is not None:
                policy.on_name_found(topic_id, name, self._environment.monotonic_ms())
        self._network.set_brokers(self.metadata.brokers.values())
        if self._is_lost:
            self._is_lost = False
            _log.warning("Cluster is reachable again")
        self._last_error = None
        policy.on_success(self._environment.monotonic_ms(), is_complete=self._is_complete(names))
        for callback in self.on_update:
            callback()
        self._notify(None)

    def _requested(
        self, names: tuple[str, ...], unknown_ids: tuple[UUID, ...]
    ) -> tuple[MetadataRequestTopic, ...]:
        """Return the topics of a request: all by id if there are unknown ids.

        Brokers accept no names together with ids. A name without a known id is then requested the next time.
        """
        if not unknown_ids:
            return tuple(MetadataRequestTopic(name=name) for name in names)
        known_ids = (self.metadata.topic_id(name) for name in names)
        topic_ids = (*unknown_ids, *(topic_id for topic_id in known_ids if topic_id != ZERO_UUID))
        return tuple(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids)

    def _is_complete(self, names: tuple[str, ...]) -> bool:
        """Return whether the metadata has all requested topics, with a leader for each partition."""
        topics = self.metadata.topics
        return not self.policy.unknown_ids and all(
            name in topics and len(topics[name].available) == topics[name].partition_count for name in names
        )

    def _notify(self, error: KafkaError | None) -> None:
        for future in list(self._waiters):
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(copy_of(error))
