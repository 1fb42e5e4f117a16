"""Percentiles of many durations in little memory.

Buckets are 64 to each doubling, so a percentile is at most 1.6 % too high; the largest value is exact.
"""

from __future__ import annotations

from typing import Final

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)

_STEPS: Final = 64
_STEP_BITS: Final = 7
_BUCKETS_MAX: Final = _STEPS * 64


class LatencyHistogram:
    """Counts durations in µs. Bounds: 4096 buckets, whatever is recorded."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS_MAX
        self.count = 0
        self.max_us = 0

    def record(self, duration_us: int) -> None:
        """Count one duration; a negative one (a clock that was set back) counts as none."""
        value = max(0, duration_us)
        shift = max(0, value.bit_length() - _STEP_BITS)
        self._counts[min(shift * _STEPS + (value >> shift), _BUCKETS_MAX - 1)] += 1
        self.count += 1
        self.max_us = max(self.max_us, value)

    def percentile_us(self, percent: float) -> int:
        """The duration that `percent` of those recorded do not exceed; 0 when there are none."""
        if not self.count:
            return 0
        needed = max(1, -(-self.count * percent // 100))
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if seen >= needed:
                return min(_upper_end(bucket), self.max_us)
        return self.max_us

    def summary_ms(self) -> dict[str, float]:
        """The usual percentiles and the maximum, in ms, by name: p50 ... p99.9, max."""
        summary = {f"p{percent:g}": self.percentile_us(percent) / 1000 for percent in PERCENTILES}
        return {**summary, "max": self.max_us / 1000}


def _upper_end(bucket: int) -> int:
    """The largest value that falls into a bucket."""
    if bucket < 2 * _STEPS:
        return bucket
    shift = bucket // _STEPS - 1
    return ((bucket - shift * _STEPS + 1) << shift) - 1
