"""A histogram of durations: plain integers, because hot paths add to it."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
)  # fmt: skip
"""Upper bounds of the buckets in seconds; the last bucket has none."""
_BOUNDS_NS: Final = tuple(round(bound * 1_000_000_000) for bound in BOUNDS_S)


class TimeHistogram:
    """Counts durations by bucket, and sums them."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        """The number of durations in each bucket; a duration equal to a bound is in the lower bucket."""
        self.total_ns = 0

    def observe(self, elapsed_ns: int) -> None:
        """Count one duration."""
        self.buckets[bisect_left(_BOUNDS_NS, elapsed_ns)] += 1
        self.total_ns += elapsed_ns
