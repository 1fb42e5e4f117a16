"""Timers for everything in a broker that waits: one timing wheel, and the shell that turns it.

`Timers` is pure but for the clock it is given; `TimerDriver` sleeps until the wheel has something
to do, so an idle broker does not wake up every tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog.broker.purgatory.timing_wheel import TimerEntry, TimingWheel

logger = logging.getLogger(__name__)


class Timers:
    """Calls functions after a delay. `now_ms` must be a monotonic clock."""

    __slots__ = ("_now_ms", "_wheel", "on_earlier")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._wheel = TimingWheel(start_ms=now_ms())
        self.on_earlier: Callable[[int], None] | None = None

    def __len__(self) -> int:
        return len(self._wheel)

    @property
    def now_ms(self) -> int:
        """The clock that deadlines are counted by."""
        return self._now_ms()

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerEntry:
        """Call `callback` in `delay_ms`; a delay of 0 or less is up at the next `advance`."""
        wheel = self._wheel
        deadline_ms = max(self._now_ms() + delay_ms, wheel.now_ms + 1)
        entry = wheel.add(deadline_ms, callback)
        if self.on_earlier is not None:
            self.on_earlier(deadline_ms)
        return entry

    def advance(self) -> int:
        """Call whatever is due by now, and say how many that were. A failing one is logged."""
        due = self._wheel.advance(self._now_ms())
        for entry in due:
            try:
                entry.callback()
            except Exception:
                logger.exception("a timer's callback failed")
        return len(due)

    def next_deadline_ms(self) -> int | None:
        """When to call `advance` next; None while there is no timer."""
        return self._wheel.next_deadline_ms()


class TimerDriver:
    """Advances `timers` from the event loop, each time there is something to do and not else."""

    __slots__ = ("_handle", "_loop", "_timers", "_wakes_ms")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._wakes_ms = 0
        timers.on_earlier = self._wake_by
        self._arm()

    def stop(self) -> None:
        """Advance no more."""
        self._timers.on_earlier = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake_by(self, deadline_ms: int) -> None:
        if self._handle is None or deadline_ms < self._wakes_ms:
            self._arm()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        next_ms = self._timers.next_deadline_ms()
        if next_ms is not None:
            self._wakes_ms = next_ms
            # Loops round down and wake a little early; a millisecond more saves an idle wake-up.
            delay_ms = max(0, next_ms - self._timers.now_ms) + 1
            self._handle = self._loop.call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._handle = None
        self._timers.advance()
        if self._timers.on_earlier is not None:
            self._arm()
