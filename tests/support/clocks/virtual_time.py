"""A clock and timers that move only when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.purgatory.timing_wheel import TimerEntry


class VirtualTime:
    """Both clocks and the timers of a broker; wall time runs a fixed step ahead of monotonic time."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = 1_000
        self._wall_ahead_ms = wall_ms - self._monotonic_ms
        self._timers = Timers(lambda: self._monotonic_ms)

    def wall_ms(self) -> int:
        return self._monotonic_ms + self._wall_ahead_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def monotonic_ns(self) -> int:
        return self._monotonic_ms * 1_000_000

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerEntry:
        return self._timers.schedule(delay_ms, callback)

    def step_wall_clock(self, by_ms: int) -> None:
        """What an administrator or NTP does."""
        self._wall_ahead_ms += by_ms

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass, a millisecond at a time where something is due."""
        end_ms = self._monotonic_ms + duration_ms
        while True:
            next_ms = self._timers.next_deadline_ms()
            if next_ms is None or next_ms > end_ms:
                break
            self._monotonic_ms = max(next_ms, self._monotonic_ms)
            self._timers.advance()
        self._monotonic_ms = end_ms
        self._timers.advance()
