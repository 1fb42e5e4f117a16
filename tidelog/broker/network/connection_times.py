"""Measures the waits of the requests of one connection, and of its writer, for the metrics.

The time until a slow peer has accepted a response counts for the API of the last response.
"""

from __future__ import annotations

from tidelog.base.clock import Clock
from tidelog.broker.network.request import Request, Route


class ConnectionTimes:
    """The clock of one connection's requests."""

    __slots__ = ("_blocked_since_ns", "_clock", "_last_route")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_route: Route | None = None
        """The route of the last request that has a response."""
        self._blocked_since_ns = 0
        """When the writer was blocked by the response of `_last_route`; 0 if it is not blocked."""

    def begin_remote_time(self, request: Request) -> int:
        """Record that `request` waits from now on, unless it has waited before; return the time."""
        now_ns = self._clock.monotonic_ns()
        waits = request.recorded_waits()
        waits.remote_began_ns = waits.remote_began_ns or now_ns
        return now_ns

    def end_queue_time(self, request: Request) -> None:
        """Record that `request` has got a slot of the request channel, after it has waited for one."""
        request.recorded_waits().queue_ns = self._clock.monotonic_ns() - request.started_ns

    def on_response(self, request: Request, now_ns: int) -> None:
        """Count the response of a request, which is available now."""
        route = request.route
        if route is not None:
            route.metrics.observe(request.started_ns, now_ns, request.waits)
            self._last_route = route

    def on_blocked(self) -> None:
        """Record that the writer does not accept further responses, unless that was recorded before."""
        self._blocked_since_ns = self._blocked_since_ns or self._clock.monotonic_ns()

    def on_ready(self) -> None:
        """Count the time since `on_blocked`: the writer has sent its queue."""
        if self._blocked_since_ns and self._last_route is not None:
            elapsed_ns = self._clock.monotonic_ns() - self._blocked_since_ns
            self._last_route.metrics.add_response_send_time(elapsed_ns)
        self._blocked_since_ns = 0
