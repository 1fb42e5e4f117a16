"""A clock that can be set forward, for tests of retention and of other long times."""

from __future__ import annotations

from datetime import timedelta

from tidelog.base.clock import SYSTEM_CLOCK


class MovableClock:
    """The system's clocks; the wall clock is ahead by all `advance`d times.

    Monotonic time is not changed: sessions and timeouts of requests do not expire.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0

    def advance(self, duration: timedelta) -> None:
        """Set the wall clock forward. Errors: ValueError for a negative duration."""
        if duration < timedelta(0):
            raise ValueError(f"duration={duration}: time can only advance")
        self._ahead_ms += duration // timedelta(milliseconds=1)

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970 (UTC), with the advance."""
        return SYSTEM_CLOCK.wall_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        """Return the milliseconds since a fixed moment."""
        return SYSTEM_CLOCK.monotonic_ms()

    def monotonic_ns(self) -> int:
        """Return the nanoseconds since a fixed moment."""
        return SYSTEM_CLOCK.monotonic_ns()
