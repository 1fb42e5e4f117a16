"""A clock that only a test advances."""

from __future__ import annotations

NOW_MS = 1_700_000_000_000
_NS_PER_MS = 1_000_000


class ManualClock:
    """Implements `tidelog.base.clock.Clock`; a test sets `now_ms`, the wall-clock time.

    Monotonic time has another origin, so that a test finds code that confuses the two.
    """

    def __init__(self, now_ms: int = NOW_MS, *, monotonic_ms: int = 0) -> None:
        self._monotonic_ns = monotonic_ms * _NS_PER_MS
        self._wall_ahead_ms = now_ms - monotonic_ms

    @property
    def now_ms(self) -> int:
        """The wall-clock time; setting it moves both clocks."""
        return self.wall_ms()

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self._monotonic_ns = (now_ms - self._wall_ahead_ms) * _NS_PER_MS

    def wall_ms(self) -> int:
        return self.monotonic_ms() + self._wall_ahead_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ns // _NS_PER_MS

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def advance_ns(self, duration_ns: int) -> None:
        """Advance both clocks, also by less than a millisecond."""
        self._monotonic_ns += duration_ns

    def step_wall_clock(self, by_ms: int) -> None:
        """Change only the wall clock, as an administrator or NTP does."""
        self._wall_ahead_ms += by_ms
