"""Hierarchical timing wheels: timers that are mostly cancelled, at O(1) for insert and cancel.

The lowest wheel has `wheel_size` buckets of one tick each. Timers beyond its span are stored in a wheel
whose tick is that whole span, and so on. A wheel is created when it is first needed:

    wheel 0   20 buckets of    1 ms   the next   20 ms
    wheel 1   20 buckets of   20 ms   the next  400 ms
    wheel 2   20 buckets of  400 ms   the next    8 s
    wheel 3   20 buckets of    8 s    the next  160 s

A bucket expires when time reaches its beginning. Its timers then expire, too, or move to a lower wheel.
Buckets that are not empty are in a heap ordered by that time. Therefore `advance` has no cost per tick
without timers, and `next_deadline_ms` is known.

Invariant: time moves only in `advance`; every bucket in the heap expires later than the current time.
Units: milliseconds of any clock that does not go back. I/O: none.
Source: Varghese and Lauck, SOSP 1987; the purgatory of Apache Kafka (KAFKA-1430).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

TICK_MS: Final = 1
WHEEL_SIZE: Final = 20
_NOT_QUEUED: Final = -1


class TimerEntry:
    """One timer: `callback` is to be called at `deadline_ms`, unless it is cancelled before."""

    __slots__ = ("_bucket", "callback", "deadline_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback = callback
        self._bucket: _Bucket | None = None

    def cancel(self) -> None:
        """Remove the timer from its wheel. Has no effect if it has expired or was cancelled."""
        bucket = self._bucket
        if bucket is not None:
            self._bucket = None
            del bucket[self]


class _Bucket(dict[TimerEntry, None]):
    """The timers of one slot, in the order in which they were added."""

    __slots__ = ("expires_ms",)

    def __init__(self) -> None:
        super().__init__()
        self.expires_ms = _NOT_QUEUED


class _Wheel:
    """One level: `end_ms` is where its span ends, exclusive."""

    __slots__ = ("buckets", "end_ms", "span_ms", "tick_ms")

    def __init__(self, tick_ms: int, size: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.span_ms = tick_ms * size
        self.buckets = [_Bucket() for _ in range(size)]
        self.end_ms = 0
        self.turn_to(now_ms)

    def turn_to(self, now_ms: int) -> None:
        """Move the span, so that it begins with the tick that contains `now_ms`."""
        self.end_ms = now_ms - now_ms % self.tick_ms + self.span_ms


class TimingWheel:
    """The wheels of all levels. `add` inserts timers, `advance` removes the expired ones."""

    __slots__ = ("_now_ms", "_queue", "_size", "_tick_ms", "_wheels")

    def __init__(self, tick_ms: int = TICK_MS, wheel_size: int = WHEEL_SIZE, start_ms: int = 0) -> None:
        assert tick_ms >= 1 and wheel_size >= 2, f"wheel of {wheel_size} x {tick_ms} ms"
        self._tick_ms = tick_ms
        self._size = wheel_size
        self._now_ms = start_ms - start_ms % tick_ms
        self._wheels = [_Wheel(tick_ms, wheel_size, self._now_ms)]
        # (expiry time, negative level, bucket): no two entries are equal in the first two values.
        self._queue: list[tuple[int, int, _Bucket]] = []

    def __len__(self) -> int:
        """Return the number of pending timers."""
        return sum(len(bucket) for wheel in self._wheels for bucket in wheel.buckets)

    @property
    def now_ms(self) -> int:
        """The time of the last `advance`, rounded down to a tick."""
        return self._now_ms

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> TimerEntry:
        """Add and return a timer for `deadline_ms`. A timer whose deadline has passed is not stored."""
        entry = TimerEntry(deadline_ms, callback)
        self._put(entry)
        return entry

    def advance(self, now_ms: int) -> list[TimerEntry]:
        """Set the current time; remove and return the timers that have expired, earlier deadlines first."""
        expired: list[TimerEntry] = []
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            bucket = heappop(queue)[2]
            self._turn_to(bucket.expires_ms)
            bucket.expires_ms = _NOT_QUEUED
            entries = list(bucket)
            bucket.clear()
            for entry in entries:
                entry._bucket = None
                if not self._put(entry):
                    expired.append(entry)
        self._turn_to(now_ms)
        return expired

    def next_deadline_ms(self) -> int | None:
        """Return the time at which to call `advance` next; None if there is no timer.

        For a timer in a higher wheel this is the time at which it moves to a lower one.
        """
        queue = self._queue
        while queue:
            expires_ms, _, bucket = queue[0]
            if bucket:
                return expires_ms
            # All its timers were cancelled.
            heappop(queue)
            bucket.expires_ms = _NOT_QUEUED
        return None

    def _put(self, entry: TimerEntry) -> bool:
        """Put a timer into the lowest wheel that reaches its deadline; return False if it has expired."""
        deadline_ms = entry.deadline_ms
        if deadline_ms < self._now_ms + self._tick_ms:
            return False
        level = 0
        for wheel in self._wheels:
            if deadline_ms < wheel.end_ms:
                break
            level += 1
        else:
            level, wheel = self._overflow(deadline_ms)
        tick = deadline_ms // wheel.tick_ms
        bucket = wheel.buckets[tick % self._size]
        bucket[entry] = None
        entry._bucket = bucket
        if bucket.expires_ms < 0:
            bucket.expires_ms = expires_ms = tick * wheel.tick_ms
            heappush(self._queue, (expires_ms, -level, bucket))
        return True

    def _overflow(self, deadline_ms: int) -> tuple[int, _Wheel]:
        """Create wheels until one reaches the deadline; return its level and the wheel."""
        while True:
            wheel = _Wheel(self._wheels[-1].span_ms, self._size, self._now_ms)
            self._wheels.append(wheel)
            if deadline_ms < wheel.end_ms:
                return len(self._wheels) - 1, wheel

    def _turn_to(self, now_ms: int) -> None:
        """Set the current time of all wheels, rounded down to a tick; no effect within the same tick."""
        if now_ms >= self._now_ms + self._tick_ms:
            self._now_ms = now_ms - now_ms % self._tick_ms
            for wheel in self._wheels:
                wheel.turn_to(self._now_ms)
