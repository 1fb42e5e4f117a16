"""Authenticates an open connection again before its session expires (KIP-368).

Requests that are sent during the exchange are held until it is complete, because the broker accepts no other
request in between. Requests that were sent before it get their responses first.

I/O: a timer and a task of the running loop.
Source: ChannelState and ReauthInfo of SaslClientAuthenticator of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from tidelog.protocol.errors import KafkaError
from tidelog.protocol.registry import ApiKey

LIFETIME_PART: Final = 0.85
"""The part of the lifetime after which the connection is authenticated again; Kafka uses 0.85 to 0.95."""

_SASL_KEYS: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))


class _HeldRequest(NamedTuple):
    """A request that waits for the end of an exchange; one of the two functions is called."""

    send: Callable[[], None]
    on_failed: Callable[[KafkaError], None]


class Reauthentication:
    """The repeated authentication of one connection.

    `authenticate` returns the lifetime of the session in milliseconds, 0 for no limit. `on_completed` is
    called after each exchange. `on_failed` is called if one fails; it must close the connection.
    """

    __slots__ = ("_authenticate", "_held", "_on_completed", "_on_failed", "_task", "_timer")

    def __init__(
        self,
        authenticate: Callable[[], Awaitable[int]],
        on_completed: Callable[[], None],
        on_failed: Callable[[KafkaError], None],
    ) -> None:
        self._authenticate = authenticate
        self._on_completed = on_completed
        self._on_failed = on_failed
        self._held: list[_HeldRequest] = []
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether an exchange is in progress."""
        return self._task is not None

    def holds(self, api_key: int) -> bool:
        """Return whether a request must wait for the end of the exchange."""
        return self._task is not None and api_key not in _SASL_KEYS

    def hold(self, send: Callable[[], None], on_failed: Callable[[KafkaError], None]) -> None:
        """Call `send` at the end of the exchange, or `on_failed` if the connection is closed before."""
        self._held.append(_HeldRequest(send, on_failed))

    def schedule(self, lifetime_ms: int) -> None:
        """Authenticate again before `lifetime_ms` has passed."""
        delay_s = lifetime_ms * LIFETIME_PART / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._start)

    def close(self, error: KafkaError) -> None:
        """Authenticate no more; the connection is closed because of `error`."""
        held, self._held = self._held, []
        for request in held:
            request.on_failed(error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def _start(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            lifetime_ms = await self._authenticate()
        except KafkaError as error:
            self._on_failed(error)
            return
        self._task = None
        if lifetime_ms > 0:
            self.schedule(lifetime_ms)
        held, self._held = self._held, []
        for request in held:
            try:
                request.send()
            except KafkaError as error:
                request.on_failed(error)
        self._on_completed()
