"""Keeps a group member alive (shell): one task that sends heartbeats, and leaves when nobody polls."""

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

    `error`: why heartbeats ended for good, for `poll` to raise. `on_change` runs when `poll` has
    something to do.
    """

    def __init__(
        self,
        client: ClusterClient,
        config: ConsumerConfig,
        lookup: CoordinatorLookup,
        membership: Membership,
        on_change: Callable[[], None],
    ) -> None:
        self.error: KafkaError | None = None
        self._client = client
        self._config = config
        self._lookup = lookup
        self._membership = membership
        self._on_change = on_change
        self._polled_ms = client.now_ms()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="tidelog-heartbeat")

    def polled(self) -> None:
        """The application is alive: it called `poll`."""
        self._polled_ms = self._client.now_ms()

    def wake(self) -> None:
        """The membership has changed."""
        self._wake.set()

    async def close(self) -> None:
        """Stop the task."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def leave(self, reason: str, timeout_ms: int) -> None:
        """Send LeaveGroup; that it cannot be sent is no failure, the session then times out."""
        membership = self._membership
        try:
            deadline_ms = self._client.now_ms() + timeout_ms
            # Looking for the coordinator may wait for connections, which know no deadline.
            async with asyncio.timeout(timeout_ms / 1000):
                response = await self._lookup.request(
                    ApiKey.LEAVE_GROUP,
                    lambda version: membership.leave_request(version, reason),
                    LeaveGroupResponse,
                    deadline_ms,
                    timeout_ms=timeout_ms,
                )
            code = known_code(response.error_code)
            if code is not ErrorCode.NONE:
                _log.info("leaving group %r: %s", membership.group_id, code.name)
        except (KafkaError, TimeoutError) as error:
            reason_lost = str(error) or f"no answer within {timeout_ms} ms"
            _log.info("leaving group %r: %s", membership.group_id, reason_lost)
        membership.left(reason)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now_ms = self._client.now_ms()
            wait_ms = self._config.heartbeat_interval_ms
            if self._membership.is_member:
                poll_left_ms = self._polled_ms + self._config.max_poll_interval_ms - now_ms
                if poll_left_ms <= 0:
                    await self._leave_because_idle()
                    continue
                wait_ms = min(self._membership.heartbeat_due_in_ms(now_ms), poll_left_ms)
                if wait_ms <= 0:
                    wait_ms = await self._beat(now_ms)
            if wait_ms > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._wake.wait()

    async def _beat(self, now_ms: int) -> int:
        """Send one heartbeat; how long to wait before looking again."""
        membership = self._membership
        if membership.session_is_over(now_ms):
            self._lookup.forget()
        generation = membership.generation
        request = membership.heartbeat_request(now_ms)
        try:
            response = await self._lookup.request(
                ApiKey.HEARTBEAT,
                lambda version: request,
                HeartbeatResponse,
                now_ms + self._config.session_timeout_ms,
                timeout_ms=min(self._config.request_timeout_ms, self._config.session_timeout_ms),
            )
            step = membership.heartbeat_answered(response.error_code, generation, self._client.now_ms())
        except KafkaError as error:
            if not error.code.retriable:
                self.error = error
                self._on_change()
                return self._config.heartbeat_interval_ms
            _log.info("heartbeat of group %r: %s", membership.group_id, error)
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
            "group %r: poll was not called for max_poll_interval_ms=%d, leaving the group",
            self._membership.group_id,
            interval_ms,
        )
        reason = f"poll was not called for {interval_ms} ms"
        if self._membership.leaves_on_close:
            await self.leave(reason, self._config.request_timeout_ms)
        else:
            self._membership.left(reason)
        self._on_change()
