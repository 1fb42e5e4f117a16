"""A million timers of which 99% are cancelled, as parked requests are."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import timing_wheel
from benchmarks.figures import Figure
from benchmarks.suites.effort import Effort


def timers(effort: Effort) -> Iterator[Figure]:
    """Measure the timing wheel compared with a heap, per timer."""
    found = timing_wheel.main()
    wheel, heap = found["timing wheel"], found["heapq, lazy cancel"]
    yield Figure(
        name="timing wheel, insert and cancel",
        value=wheel["insert_cancel_us"],
        unit="us",
        reference=heap["insert_cancel_us"],
        reference_name="heapq",
        ratio=found["ratio"],
        at_most=timing_wheel.TARGET,
    )
