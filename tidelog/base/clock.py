"""The seam to time: what the broker's shells read instead of reaching for the clock.

Cores never see this; they take `now_ms`. Two clocks, because wall time jumps: stamps on records
come from the wall clock, deadlines and durations from the monotonic one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps, monotonic time for deadlines and durations."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 (UTC); may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, for durations."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    # A staticmethod of a C function costs no Python frame, and this one is read for every request.
    monotonic_ns: Callable[[], int] = staticmethod(time.perf_counter_ns)

    def wall_ms(self) -> int:
        """See Clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """See Clock."""
        return time.perf_counter_ns() // 1_000_000
