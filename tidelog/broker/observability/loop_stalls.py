"""Measures how long one callback blocked the event loop, which delays every client of the broker.

A timer expires every INTERVAL_S. Its delay is the remaining time of the callback that was running then. A
stall that is shorter than the interval may be missed; the result is less than one interval too short.

Bounds: two windows of WINDOW_S, like Kafka's samples; the result is the longest stall of both.
I/O: a timer of the event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tidelog.base.clock import Clock

if TYPE_CHECKING:
    from tidelog.broker.observability.metrics import BrokerMetrics

INTERVAL_S: Final = 0.02
WINDOW_S: Final = 30.0
_NANOSECONDS: Final = 1_000_000_000


class LoopStalls:
    """Measures the stalls of the running event loop from `start` to `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._expected_ns = self._window_end_ns = 0
        self._longest_ns = self._longest_of_previous_window_ns = 0

    def start(self) -> None:
        """Start the measurement."""
        self.begin_window()
        self._schedule()

    def stop(self) -> None:
        """Stop the measurement."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def begin_window(self) -> None:
        """Start a new window; the one before the last no longer counts."""
        self._longest_of_previous_window_ns, self._longest_ns = self._longest_ns, 0
        self._window_end_ns = self._clock.monotonic_ns() + int(WINDOW_S * _NANOSECONDS)

    @property
    def longest_s(self) -> float:
        """The longest stall of the last 30 to 60 seconds."""
        return max(self._longest_ns, self._longest_of_previous_window_ns) / _NANOSECONDS

    def report_to(self, metrics: BrokerMetrics) -> None:
        """Add the metric, under Tidelog's own name: Kafka has many threads and no such metric."""
        metrics.gauge(
            "tidelog_event_loop_stall_seconds_max",
            "Longest time in the last 30 to 60 seconds for which one callback blocked the event loop.",
            lambda: self.longest_s,
        )

    def _schedule(self) -> None:
        self._expected_ns = self._clock.monotonic_ns() + int(INTERVAL_S * _NANOSECONDS)
        self._handle = self._loop.call_later(INTERVAL_S, self._on_timer)

    def _on_timer(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._window_end_ns:
            self.begin_window()
        self._longest_ns = max(self._longest_ns, now_ns - self._expected_ns)
        self._schedule()
