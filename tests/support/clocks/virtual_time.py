"""Virtual time: a clock and timers that advance only when a test calls `pass_time`."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.purgatory.timing_wheel import TimerEntry


class VirtualTime(ManualClock):
    """A manual clock and the timers of a broker."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        super().__init__(now_ms, monotonic_ms=1_000)
        self._timers = Timers(self.monotonic_ms)

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerEntry:
        return self._timers.schedule(delay_ms, callback)

    def pass_time(self, duration_ms: int) -> None:
        """Advance the clock from one expiring timer to the next, and run their callbacks."""
        end_ms = self.now_ms + duration_ms
        while True:
            deadline_ms = self._timers.next_deadline_ms()
            if deadline_ms is None or (next_ms := self._wall_time_of(deadline_ms)) > end_ms:
                break
            self.now_ms = max(next_ms, self.now_ms)
            self._timers.advance()
        self.now_ms = end_ms
        self._timers.advance()

    def _wall_time_of(self, deadline_ms: int) -> int:
        return self.now_ms + deadline_ms - self.monotonic_ms()
