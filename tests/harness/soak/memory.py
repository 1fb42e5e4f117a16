"""Growth of a process's memory: a straight line through its samples (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Sample(NamedTuple):
    """Resident memory at one moment: number of the broker's start, seconds since it, bytes."""

    start: int
    age_s: float
    run_s: float
    resident_bytes: int


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the least-squares line, or 0 for fewer than two different x."""
    count = len(points)
    if count < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def growth_over_starts(samples: Sequence[Sample]) -> float:
    """Return the bytes per second of the run by which each start's last sample exceeds the previous ones."""
    last: dict[int, Sample] = {}
    for sample in samples:
        last[sample.start] = sample
    return slope([(sample.run_s, sample.resident_bytes) for sample in last.values()])


def growth_of_start(samples: Sequence[Sample], start: int, from_age_s: float) -> float:
    """Return the bytes per second within one start, after its first `from_age_s`."""
    return slope(
        [(one.age_s, one.resident_bytes) for one in samples if one.start == start and one.age_s >= from_age_s]
    )
