"""A share consumer's membership (shell): a task sends the heartbeats.

An application that does not poll in `max_poll_interval_ms` leaves the group until it polls again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.share_consumer.share_membership import MemberState, ShareMembership
from tidelog.clients.transport.failures import COORDINATOR_MOVED
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

_log = logging.getLogger("tidelog.clients.group")


class ShareGroupMember:
    """The heartbeats of one share consumer. `on_change` is called when its assignment may have changed."""

    def __init__(
        self,
        client: ClusterClient,
        config: ShareConsumerConfig,
        membership: ShareMembership,
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._config = config
        self._membership = membership
        self._on_change = on_change
        self._lookup = CoordinatorLookup(client, membership.group_id)
        self._topics: frozenset[str] = frozenset()
        self._error: KafkaError | None = None
        self._polled_ms = client.now_ms()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="tidelog-share-heartbeat")

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics; the next heartbeat joins the group or sends the change."""
        self._topics = topics
        self._membership.request_heartbeat()
        self._wake.set()

    def on_poll(self) -> None:
        """Record that the application called `poll`. Raise the error of the last heartbeat, if any.

        If the coordinator has rejected the member, each call raises the error. After another one, the
        heartbeat is sent again.
        """
        self._polled_ms = self._client.now_ms()
        error = self._error
        if error is not None:
            if self._membership.state is not MemberState.FATAL:
                self._error = None
                self._membership.request_heartbeat()
                self._wake.set()
            raise error.with_traceback(None)
        if self._membership.state is MemberState.LEFT:
            self._membership.rejoin()
            self._wake.set()

    def assigned(self) -> list[TopicPartition]:
        """Return the assigned partitions of topics whose names are known; request unknown names."""
        partitions: list[TopicPartition] = []
        for topic_id, indexes in self._membership.assigned.items():
            name = self._client.metadata.topic_name(topic_id)
            if name is None:
                self._client.updater.request_update()
            else:
                partitions += [TopicPartition(name, index) for index in indexes]
        return partitions

    async def close(self, timeout_ms: int) -> None:
        """Stop the heartbeats, and leave the group."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._leave(timeout_ms)

    # --- the task -------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait_ms = await self._step()
            if wait_ms > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._wake.wait()

    async def _step(self) -> int:
        """Send a heartbeat if it is time; return the time until the next step in ms."""
        now_ms = self._client.now_ms()
        idle_ms, membership = self._config.max_poll_interval_ms, self._membership
        if not self._topics or membership.state not in (MemberState.JOINING, MemberState.MEMBER):
            return idle_ms
        until_idle_ms = self._polled_ms + idle_ms - now_ms
        if until_idle_ms <= 0:
            if membership.is_member:
                text = "Share consumer of group %r leaves it: poll was not called for max_poll_interval_ms=%d"
                _log.warning(text, membership.group_id, idle_ms)
                await self._leave(self._config.request_timeout_ms)
                self._on_change()
            return idle_ms
        wait_ms = membership.next_heartbeat_ms(now_ms)
        return min(wait_ms, until_idle_ms) if wait_ms > 0 else await self._send(now_ms)

    async def _send(self, now_ms: int) -> int:
        """Send one heartbeat; return the time until the next step in ms."""
        membership, topics = self._membership, self._topics
        before = membership.assigned
        try:
            response = await self._lookup.request(
                membership.request(topics, now_ms),
                ShareGroupHeartbeatResponse,
                now_ms + self._config.default_api_timeout_ms,
            )
            membership.on_response(response, topics, self._client.now_ms())
        except KafkaError as error:
            if not error.code.retriable:
                self._error = error
                self._on_change()
                return self._config.max_poll_interval_ms
            _log.info("Heartbeat of share group %r failed: %s; retrying", membership.group_id, error)
            if error.code in COORDINATOR_MOVED:
                self._lookup.forget()
            membership.request_heartbeat()
            return max(1, self._client.backoff.delay_ms(0, self._client.environment.rng))
        if membership.assigned != before:
            self._on_change()
        return membership.next_heartbeat_ms(self._client.now_ms())

    async def _leave(self, timeout_ms: int) -> None:
        """Leave the group, and log a failure: the coordinator then removes the member after its session."""
        request = self._membership.leave_request()
        if request is None:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                deadline_ms = self._client.now_ms() + timeout_ms
                await self._lookup.request(request, ShareGroupHeartbeatResponse, deadline_ms)
        except (KafkaError, TimeoutError) as error:
            text = str(error) or f"no response within {timeout_ms} ms"
            _log.info("Leaving share group %r failed: %s", self._membership.group_id, text)
