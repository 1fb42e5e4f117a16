"""Sends the heartbeats of a group member (shell), and leaves the group if the application does not poll."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.membership import Membership, Step
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.transport.failures import known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.heartbeat import HeartbeatResponse
from tidelog.protocol.messages.leave_group import LeaveGroupResponse
from tidelog.protocol.registry import ApiKey

_log = logging.getLogger("tidelog.clients.group")


class Heartbeater:
    """The heartbeat task of one member.

    `on_change` is called when `poll` has work to do.
    """

    def __init__(
        self,
        client: ClusterClient,
        config: ConsumerConfig,
        lookup: CoordinatorLookup,
        membership: Membership,
        on_change: Callable[[], None],
    ) -> None:
        self._error: KafkaError | None = None
        self._client = client
        self._config = config
        self._lookup = lookup
        self._membership = membership
        self._on_change = on_change
        self._polled_ms = client.now_ms()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="tidelog-heartbeat")

    def on_poll(self) -> None:
        """Record that the application called `poll`."""
        self._polled_ms = self._client.now_ms()

    def take_error(self) -> KafkaError | None:
        """Remove and return a fatal error of the heartbeats, for `poll` to raise."""
        error, self._error = self._error, None
        return error

    def wake(self) -> None:
        """Make the task check the membership again."""
        self._wake.set()

    async def close(self) -> None:
        """Stop the task."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def leave(self, reason: str, timeout_ms: int) -> None:
        """Send LeaveGroup and log a failure: the coordinator then removes the member after its timeout."""
        membership = self._membership
        try:
            deadline_ms = self._client.now_ms() + timeout_ms
            # The lookup of the coordinator may wait for a connection without a deadline.
            async with asyncio.timeout(timeout_ms / 1000):
                response = await self._lookup.request_for_version(
                    ApiKey.LEAVE_GROUP,
                    lambda version: membership.leave_request(version, reason),
                    LeaveGroupResponse,
                    deadline_ms,
                    timeout_ms=timeout_ms,
                )
            code = known_code(response.error_code)
            if code is not ErrorCode.NONE:
                _log.info("LeaveGroup of group %r failed: %s", membership.group_id, code.name)
        except (KafkaError, TimeoutError) as error:
            text = str(error) or f"no response within {timeout_ms} ms"
            _log.info("LeaveGroup of group %r failed: %s", membership.group_id, text)
        membership.on_left(reason)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now_ms = self._client.now_ms()
            wait_ms = self._config.heartbeat_interval_ms
            if self._membership.is_member:
                until_poll_ms = self._polled_ms + self._config.max_poll_interval_ms - now_ms
                if until_poll_ms <= 0:
                    await self._leave_because_idle()
                    continue
                wait_ms = min(self._membership.next_heartbeat_ms(now_ms), until_poll_ms)
                if wait_ms <= 0:
                    wait_ms = await self._send_heartbeat(now_ms)
            if wait_ms > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._wake.wait()

    async def _send_heartbeat(self, now_ms: int) -> int:
        """Send one heartbeat; return the time until the next check in ms."""
        membership = self._membership
        if membership.has_session_expired(now_ms):
            self._lookup.forget()
        generation = membership.generation
        request = membership.heartbeat_request(now_ms)
        try:
            response = await self._lookup.request(
                request,
                HeartbeatResponse,
                now_ms + self._config.session_timeout_ms,
                timeout_ms=min(self._config.request_timeout_ms, self._config.session_timeout_ms),
            )
            step = membership.on_heartbeat_response(response.error_code, generation, self._client.now_ms())
        except KafkaError as error:
            if not error.code.retriable:
                self._error = error
                self._on_change()
                return self._config.heartbeat_interval_ms
            _log.info("Heartbeat of group %r failed: %s; retrying", membership.group_id, error)
            step = Step.RETRY
        if membership.needs_join:
            self._on_change()
        if step is Step.FIND_COORDINATOR:
            self._lookup.forget()
        if step in (Step.FIND_COORDINATOR, Step.RETRY):
            return self._client.backoff.delay_ms(0, self._client.environment.rng)
        return 0

    async def _leave_because_idle(self) -> None:
        interval_ms = self._config.max_poll_interval_ms
        _log.warning(
            "Consumer of group %r leaves the group: poll was not called for max_poll_interval_ms=%d",
            self._membership.group_id,
            interval_ms,
        )
        reason = f"poll was not called for {interval_ms} ms"
        if self._membership.leaves_on_close:
            await self.leave(reason, self._config.request_timeout_ms)
        else:
            self._membership.on_left(reason)
        self._on_change()
