"""Percentiles of many durations in little memory.

There are 64 buckets for each power of two, so a percentile is at most 1.6 % too high. The maximum is exact.
"""

from __future__ import annotations

from typing import Final

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)

_STEPS: Final = 64
_STEP_BITS: Final = 7
_BUCKETS_MAX: Final = _STEPS * 64


class LatencyHistogram:
    """Counts durations in µs. Bounds: 4096 buckets."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS_MAX
        self.count = 0
        self.max_us = 0

    def record(self, duration_us: int) -> None:
        """Count one duration; a negative one (the clock was set back) counts as 0."""
        value = max(0, duration_us)
        shift = max(0, value.bit_length() - _STEP_BITS)
        self._counts[min(shift * _STEPS + (value >> shift), _BUCKETS_MAX - 1)] += 1
        self.count += 1
        self.max_us = max(self.max_us, value)

    def percentile_us(self, percent: float) -> int:
        """Return the duration that `percent` of all durations do not exceed; 0 if there are none."""
        if not self.count:
            return 0
        required_count = max(1, -(-self.count * percent // 100))
        cumulative_count = 0
        for bucket, count in enumerate(self._counts):
            cumulative_count += count
            if cumulative_count >= required_count:
                return min(_upper_end(bucket), self.max_us)
        return self.max_us

    def summary_ms(self) -> dict[str, float]:
        """Return the percentiles and the maximum in ms by name: p50 ... p99.9, max."""
        summary = {f"p{percent:g}": self.percentile_us(percent) / 1000 for percent in PERCENTILES}
        return {**summary, "max": self.max_us / 1000}


def _upper_end(bucket: int) -> int:
    """Return the largest value of a bucket."""
    if bucket < 2 * _STEPS:
        return bucket
    shift = bucket // _STEPS - 1
    return ((bucket - shift * _STEPS + 1) << shift) - 1
