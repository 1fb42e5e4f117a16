"""Mutes one connection while its client is throttled, because it has exceeded a quota (KIP-219)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.broker.network.connection_core import ConnectionCore
from tidelog.broker.network.resources import NetworkResources


class ConnectionThrottle:
    """Owns the timer that ends the throttle time; `on_end` is called when frames may be handled again."""

    __slots__ = ("_core", "_on_end", "_resources", "_timer")

    def __init__(self, core: ConnectionCore, resources: NetworkResources, on_end: Callable[[], None]) -> None:
        self._core = core
        self._resources = resources
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None

    def mute(self, throttle_time_ms: int) -> None:
        """Handle no further frame for `throttle_time_ms`; the current request still gets its response."""
        if not self._core.throttle(self._resources.clock.monotonic_ms() + throttle_time_ms):
            return
        self._cancel()
        self._timer = asyncio.get_running_loop().call_later(throttle_time_ms / 1000, self._end)
        self._resources.counters.connections_throttled += 1

    def close(self) -> None:
        """Cancel the timer, because the connection has ended; also break the reference cycle."""
        self._cancel()
        del self._on_end

    def _end(self) -> None:
        self._cancel()
        self._core.end_throttle()
        self._on_end()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._resources.counters.connections_throttled -= 1
