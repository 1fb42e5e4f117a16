"""How long the event loop was held by one callback: the delay that every client of the broker had.

A timer is set for every INTERVAL_S; by how much it comes late is the rest of the callback that ran then. So a
stall shorter than the interval may be missed, and of a longer one less than the interval is missed.

Bounds: two windows of WINDOW_S, as Kafka keeps samples; a reader sees the longest of both.
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
    """Watches the running event loop from `start` to `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._due_ns = self._window_ends_ns = 0
        self._longest_ns = self._longest_before_ns = 0

    def start(self) -> None:
        """Begin to measure."""
        self.begin_window()
        self._wait()

    def stop(self) -> None:
        """Measure no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def begin_window(self) -> None:
        """Forget all but the stalls of the window that ends."""
        self._longest_before_ns, self._longest_ns = self._longest_ns, 0
        self._window_ends_ns = self._clock.monotonic_ns() + int(WINDOW_S * _NANOSECONDS)

    @property
    def longest_s(self) -> float:
        """The longest stall of the last 30 to 60 seconds."""
        return max(self._longest_ns, self._longest_before_ns) / _NANOSECONDS

    def report_to(self, metrics: BrokerMetrics) -> None:
        """Report it under Tidelog's own name: Kafka, with its many threads, has none for it."""
        metrics.gauge(
            "tidelog_event_loop_stall_seconds_max",
            "Longest time of the last half minute or more in which the event loop served nobody.",
            lambda: self.longest_s,
        )

    def _wait(self) -> None:
        self._due_ns = self._clock.monotonic_ns() + int(INTERVAL_S * _NANOSECONDS)
        self._handle = self._loop.call_later(INTERVAL_S, self._came)

    def _came(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._window_ends_ns:
            self.begin_window()
        self._longest_ns = max(self._longest_ns, now_ns - self._due_ns)
        self._wait()
