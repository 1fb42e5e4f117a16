"""Virtual time: events in the order of their times, and of the seed where times are equal.

Time passes only from one event to the next. All random choices of a simulation come from `rng`, so that a
seed determines the run.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from tidelog.testing.simulation.trace import Trace

MS: Final = 1_000_000
"""The nanoseconds in a millisecond."""
SECOND: Final = 1_000 * MS
_TIE_BITS: Final = 16
_SEQUENCE_BITS: Final = 48


class Scheduler:
    """The virtual clock and the queue of events."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_ns = 0
        self.event_count = 0
        self.current = ""
        """The name of the process whose code runs; empty between events."""
        self.trace = Trace(lambda: self.now_ns)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._random_bits = self.rng.getrandbits
        self._next: deque[Callable[[], None]] = deque()
        self._sequence = 0

    def at(self, time_ns: int, callback: Callable[[], None]) -> None:
        """Call `callback` at a time; now if it has passed."""
        now_ns = self.now_ns
        self._sequence += 1
        order = (self._random_bits(_TIE_BITS) << _SEQUENCE_BITS) | self._sequence
        heappush(self._queue, (time_ns if time_ns > now_ns else now_ns, order, callback))

    def soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` after the current event, before all others."""
        self._next.append(callback)

    def after(self, delay_ns: int, callback: Callable[[], None]) -> None:
        """Call `callback` after a delay."""
        self.at(self.now_ns + delay_ns, callback)

    def clear(self) -> None:
        """Drop all events: the simulation has ended."""
        self._queue.clear()
        self._next.clear()

    def between(self, low_ns: int, high_ns: int) -> int:
        """Return a random duration."""
        return low_ns + int(self.rng.random() * (high_ns - low_ns))

    def run_until(self, is_done: Callable[[], bool], deadline_ns: int, events_max: int) -> bool | None:
        """Run events until `is_done`, and return True.

        Return False if it is not done at the deadline; None after `events_max` events.
        """
        queue, following = self._queue, self._next
        for _ in range(events_max):
            if following:
                self.event_count += 1
                following.popleft()()
                continue
            if is_done():
                return True
            if not queue or queue[0][0] > deadline_ns:
                self.now_ns = max(self.now_ns, deadline_ns)
                return False
            self.now_ns, _, callback = heappop(queue)
            self.event_count += 1
            callback()
        return None
