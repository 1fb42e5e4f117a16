"""The clock of the parts that do I/O; tests and simulations pass another one.

Parts without I/O take `now_ms` instead. There are two kinds of time because wall-clock time may jump:
timestamps of records use the wall clock, deadlines and durations use the monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol


class Clock(Protocol):
    """Wall-clock time for timestamps, monotonic time for deadlines and durations."""

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970 (UTC); may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return the milliseconds since a fixed moment; never decreases."""
        ...

    def monotonic_ns(self) -> int:
        """Return the monotonic time in nanoseconds, for durations."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    __slots__ = ()

    # A staticmethod of a C function needs no Python frame; this method is called for every request.
    monotonic_ns: Callable[[], int] = staticmethod(time.perf_counter_ns)

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970 (UTC)."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the milliseconds since a fixed moment."""
        return time.perf_counter_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return the monotonic time in seconds, for the durations that tools print."""
        return time.perf_counter()


SYSTEM_CLOCK: Final = SystemClock()
