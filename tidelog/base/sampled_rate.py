"""A rate over sampled windows, and the time until it falls to a quota.

Values are recorded in samples of one window each. A sample counts as long as its last value is younger than
all windows together, so the oldest sample may overlap the measured time. The rate of a client that has just
begun is measured as if it had been idle before: over all windows but one, and the elapsed part of the current
one.

Units: values are bytes, percent or connections; times are monotonic milliseconds.
Bounds: one sample more than windows.
Source: Rate, SampledStat and QuotaUtils of Apache Kafka 4.3.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

THROTTLE_TIME_MS_MAX: Final = 2**31 - 1


class Windows(NamedTuple):
    """The number of sampled windows and the length of each: quota.window.num, quota.window.size.seconds."""

    number: int
    size_ms: int

    @property
    def total_ms(self) -> int:
        """The length of all windows together."""
        return self.number * self.size_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


def rounded_throttle_time_ms(throttle_time_ms: float) -> int:
    """Return whole milliseconds that fit in the field of a response."""
    return math.floor(min(throttle_time_ms, THROTTLE_TIME_MS_MAX) + 0.5)


class SampledRate:
    """The values per second of one client."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque(maxlen=windows.number + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Add a value, which may be negative to take back an earlier one."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.size_ms:
            samples.append(_Sample(now_ms))
        sample = samples[-1]
        sample.value += value
        sample.last_ms = now_ms

    def value(self, now_ms: int) -> float:
        """Return the values per second."""
        self._expire(now_ms)
        return sum(sample.value for sample in self._samples) * 1000 / self._elapsed_ms(now_ms)

    def throttle_time_ms(self, quota: float, now_ms: int) -> int:
        """Return how long no value may be recorded until the rate falls to `quota`; 0 if it is not above it.

        With a quota of 0 that is the length of all windows.
        """
        excess = self.value(now_ms) - quota
        if excess <= 0:
            return 0
        if not quota:
            return self._windows.total_ms
        return rounded_throttle_time_ms(excess / quota * self._elapsed_ms(now_ms))

    def _elapsed_ms(self, now_ms: int) -> int:
        size_ms = self._windows.size_ms
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = self._windows.number - 1 - elapsed_ms // size_ms
        return max(elapsed_ms + max(missing, 0) * size_ms, 1)

    def _expire(self, now_ms: int) -> None:
        samples, total_ms = self._samples, self._windows.total_ms
        while samples and now_ms - samples[0].last_ms >= total_ms:
            samples.popleft()
