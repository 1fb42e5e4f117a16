"""The timers of a broker: one timing wheel, and the driver that advances it.

`Timers` does no I/O except for reading its clock. `TimerDriver` sleeps until the next deadline, so an idle
broker does not wake up at every tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog.broker.purgatory.timing_wheel import TimerEntry, TimingWheel

logger = logging.getLogger(__name__)


class Timers:
    """Calls functions after a delay. `now_ms` must be a monotonic clock."""

    __slots__ = ("_now_ms", "_on_scheduled", "_wheel")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._wheel = TimingWheel(start_ms=now_ms())
        self._on_scheduled: Callable[[int], None] | None = None

    def __len__(self) -> int:
        return len(self._wheel)

    @property
    def now_ms(self) -> int:
        """The current time of the clock, in which deadlines are expressed."""
        return self._now_ms()

    def notify(self, on_scheduled: Callable[[int], None] | None) -> None:
        """Call `on_scheduled` with the deadline of each new timer; None ends this."""
        self._on_scheduled = on_scheduled

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerEntry:
        """Call `callback` after `delay_ms`; with a delay of 0 or less, at the next `advance`."""
        wheel = self._wheel
        deadline_ms = max(self._now_ms() + delay_ms, wheel.now_ms + 1)
        entry = wheel.add(deadline_ms, callback)
        if self._on_scheduled is not None:
            self._on_scheduled(deadline_ms)
        return entry

    def advance(self) -> int:
        """Call the callbacks of expired timers and return their number. An error of a callback is logged."""
        expired = self._wheel.advance(self._now_ms())
        for entry in expired:
            try:
                entry.callback()
            except Exception:
                logger.exception("A timer's callback failed")
        return len(expired)

    def next_deadline_ms(self) -> int | None:
        """Return the time at which to call `advance` next; None if there is no timer."""
        return self._wheel.next_deadline_ms()


class TimerDriver:
    """Advances `timers` from the event loop whenever a deadline has passed."""

    __slots__ = ("_handle", "_is_stopped", "_loop", "_timers", "_wake_ms")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._wake_ms = 0
        self._is_stopped = False
        timers.notify(self._on_scheduled)
        self._set_timer()

    def stop(self) -> None:
        """Stop advancing the timers."""
        self._is_stopped = True
        self._timers.notify(None)
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _on_scheduled(self, deadline_ms: int) -> None:
        if self._handle is None or deadline_ms < self._wake_ms:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        next_ms = self._timers.next_deadline_ms()
        if next_ms is not None:
            self._wake_ms = next_ms
            # Loops round down and wake a little early; a millisecond more saves an idle wake-up.
            delay_ms = max(0, next_ms - self._timers.now_ms) + 1
            self._handle = self._loop.call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._handle = None
        self._timers.advance()
        if not self._is_stopped:
            self._set_timer()
