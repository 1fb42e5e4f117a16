"""Limits the speed of compaction, for the event loop and for log.cleaner.io.max.bytes.per.second.

The interpreter runs one thread at a time. A computing thread releases it only at the end of its switch
interval (`tidelog.broker.node.process`), and the event loop would wait that long for each of its callbacks. A
cleaner therefore sleeps often and briefly. It then also checks whether its work is still needed.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Final

from tidelog.base.clock import Clock

WORK_NS: Final = 500_000
"""The time for which a cleaner runs between two pauses."""
PAUSE_S: Final = 0.000_25


class CleaningAborted(Exception):
    """The log must not be compacted any more, or the node stops."""


class CleanerPace:
    """The pace of one cleaner thread, which calls it with the number of bytes read or written.

    `bytes_per_second` is the thread's share of log.cleaner.io.max.bytes.per.second.
    Errors: CleaningAborted if `stopping` is set, or if `is_needed` returns False.
    """

    def __init__(
        self, clock: Clock, stopping: Event, is_needed: Callable[[], bool], bytes_per_second: float
    ) -> None:
        self._clock = clock
        self._stopping = stopping
        self._is_needed = is_needed
        self._ns_per_byte = 1e9 / bytes_per_second
        self._bytes = 0
        self._began_ns = self._paused_ns = clock.monotonic_ns()

    def __call__(self, size_bytes: int) -> None:
        """Return at once, or after a pause."""
        self._bytes += size_bytes
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._paused_ns < WORK_NS:
            return
        early_ns = self._began_ns + self._bytes * self._ns_per_byte - now_ns
        if self._stopping.wait(max(PAUSE_S, early_ns / 1e9)) or not self._is_needed():
            raise CleaningAborted
        self._paused_ns = self._clock.monotonic_ns()
