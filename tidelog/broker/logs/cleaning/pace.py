"""How fast a thread compacts: not so fast that the event loop goes hungry, nor faster than it is told.

One interpreter runs one thread at a time. A thread that computes lets go only when its slice of time is over
(`tidelog.broker.node.process`), and the loop would wait that long for each of its callbacks. So a cleaner
rests by
itself,
often and shortly, and the loop gets its turn. It also looks then whether its work is still wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Final

from tidelog.base.clock import Clock

WORK_NS: Final = 500_000
REST_S: Final = 0.000_25


class CleaningAborted(Exception):
    """The log is not to be compacted any more, or the node stops."""


class CleanerPace:
    """Called with the bytes that were read or written, by the one thread that does it.

    `bytes_per_second` is the share of log.cleaner.io.max.bytes.per.second.
    Errors: CleaningAborted once `stopping` is set, or `is_wanted` says no.
    """

    def __init__(
        self, clock: Clock, stopping: Event, is_wanted: Callable[[], bool], bytes_per_second: float
    ) -> None:
        self._clock = clock
        self._stopping = stopping
        self._is_wanted = is_wanted
        self._ns_per_byte = 1e9 / bytes_per_second
        self._bytes = 0
        self._began_ns = self._rested_ns = clock.monotonic_ns()

    def __call__(self, size_bytes: int) -> None:
        """Go on at once, or after a rest."""
        self._bytes += size_bytes
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._rested_ns < WORK_NS:
            return
        early_ns = self._began_ns + self._bytes * self._ns_per_byte - now_ns
        if self._stopping.wait(max(REST_S, early_ns / 1e9)) or not self._is_wanted():
            raise CleaningAborted
        self._rested_ns = self._clock.monotonic_ns()
