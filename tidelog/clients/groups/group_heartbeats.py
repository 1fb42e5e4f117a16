"""The heartbeat task of a member whose partitions the coordinator assigns (shell; KIP-848, KIP-932).

A member whose application does not poll in `max_poll_interval_ms` leaves the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.transport.failures import COORDINATOR_MOVED
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.schema import ApiMessage

_log = logging.getLogger("tidelog.clients.group")

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class HeartbeatTimeouts(Protocol):
    """The config keys that the task uses; ConsumerConfig and ShareConsumerConfig have them."""

    @property
    def max_poll_interval_ms(self) -> int: ...

    @property
    def request_timeout_ms(self) -> int: ...

    @property
    def default_api_timeout_ms(self) -> int: ...


class HeartbeatMembership(Protocol):
    """The state of the member: ConsumerMembership or ShareMembership."""

    group_id: str

    @property
    def is_member(self) -> bool:
        """Whether the coordinator knows the member."""
        ...

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the member joins or is in the group."""
        ...

    def request_heartbeat(self) -> None:
        """Send the next heartbeat at once."""

    def next_heartbeat_ms(self, now_ms: int) -> int:
        """Return the time until the next heartbeat has to be sent."""
        ...

    def leave_request(self) -> ApiMessage | None:
        """Return the heartbeat that leaves the group; None if the member is not in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatPorts:
    """What the task uses of a consumer; `on_change` is called when `poll` has work to do."""

    client: ClusterClient
    lookup: CoordinatorLookup
    timeouts: HeartbeatTimeouts
    on_change: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatExchange(Generic[ResponseT]):
    """The requests and responses of one protocol.

    `kind` is the type of the group in log lines. `request` returns the next heartbeat at a time in ms.
    `on_response` handles its response; it raises KafkaError for an error of the coordinator.
    """

    kind: str
    response_type: type[ResponseT]
    is_subscribed: Callable[[], bool]
    request: Callable[[int], ApiMessage]
    on_response: Callable[[ResponseT, int], None]


class GroupHeartbeats(Generic[ResponseT]):
    """Sends the heartbeats of one member, from its creation until `close`."""

    def __init__(
        self,
        ports: HeartbeatPorts,
        membership: HeartbeatMembership,
        exchange: HeartbeatExchange[ResponseT],
    ) -> None:
        self.error: KafkaError | None = None
        """The error of the last heartbeat that is not retriable, for `poll` to raise; None if none."""
        self._ports = ports
        self._membership = membership
        self._exchange = exchange
        self._polled_ms = ports.client.now_ms()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="tidelog-group-heartbeat")

    def on_poll(self) -> None:
        """Record that the application called `poll`."""
        self._polled_ms = self._ports.client.now_ms()

    def take_error(self) -> KafkaError | None:
        """Remove and return `error`."""
        error, self.error = self.error, None
        return error

    def send_soon(self) -> None:
        """Send the next heartbeat at once."""
        self._membership.request_heartbeat()
        self._wake.set()

    async def close(self, timeout_ms: int) -> None:
        """Stop the task, and leave the group."""
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
        now_ms = self._ports.client.now_ms()
        idle_ms, membership = self._ports.timeouts.max_poll_interval_ms, self._membership
        if not self._exchange.is_subscribed() or not membership.sends_heartbeats:
            return idle_ms
        until_idle_ms = self._polled_ms + idle_ms - now_ms
        if until_idle_ms <= 0:
            if membership.is_member:
                text = "Consumer of %s %r leaves it: poll was not called for max_poll_interval_ms=%d"
                _log.warning(text, self._exchange.kind, membership.group_id, idle_ms)
                await self._leave(self._ports.timeouts.request_timeout_ms)
                self._ports.on_change()
            return idle_ms
        wait_ms = membership.next_heartbeat_ms(now_ms)
        return min(wait_ms, until_idle_ms) if wait_ms > 0 else await self._send(now_ms)

    async def _send(self, now_ms: int) -> int:
        """Send one heartbeat; return the time until the next step in ms."""
        client, timeouts, membership = self._ports.client, self._ports.timeouts, self._membership
        try:
            response = await self._ports.lookup.request(
                self._exchange.request(now_ms),
                self._exchange.response_type,
                now_ms + timeouts.default_api_timeout_ms,
            )
            self._exchange.on_response(response, client.now_ms())
        except KafkaError as error:
            if not error.code.retriable:
                self.error = error
                self._ports.on_change()
                return timeouts.max_poll_interval_ms
            text = "Heartbeat of %s %r failed: %s; retrying"
            _log.info(text, self._exchange.kind, membership.group_id, error)
            if error.code in COORDINATOR_MOVED:
                self._ports.lookup.forget()
            membership.request_heartbeat()
            return max(1, client.backoff.delay_ms(0, client.environment.rng))
        return membership.next_heartbeat_ms(client.now_ms())

    async def _leave(self, timeout_ms: int) -> None:
        """Leave the group, and log a failure: the coordinator then removes the member after its session."""
        request = self._membership.leave_request()
        if request is None:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                deadline_ms = self._ports.client.now_ms() + timeout_ms
                await self._ports.lookup.request(request, self._exchange.response_type, deadline_ms)
        except (KafkaError, TimeoutError) as error:
            reason = str(error) or f"no response within {timeout_ms} ms"
            text = "Leaving %s %r failed: %s"
            _log.info(text, self._exchange.kind, self._membership.group_id, reason)
