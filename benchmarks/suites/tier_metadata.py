"""The cost of many remote segments in a broker: memory per segment, and time at the start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.figures import Figure
from benchmarks.processes import run_load
from benchmarks.suites.effort import Effort

SEGMENTS_IN_MEMORY: Final = 400_000
SEGMENTS_AT_START: Final = 100_000
BYTES_AT_MOST: Final = 100
"""KIP-405 counts with 100 bytes: 2.6 million segments in 260 MB."""


def tier_metadata(effort: Effort) -> Iterator[Figure]:
    """Measure resident bytes per segment, and the time until a node has loaded all of them."""
    segments = int(SEGMENTS_IN_MEMORY * effort.scale)
    found = run_load("tier_metadata", kind="memory", segments=segments)
    yield Figure(
        name="metadata in memory, for each remote segment",
        value=found["bytes_per_segment"],
        unit="B",
        at_most=BYTES_AT_MOST,
        note=f"of {segments:,} segments",
    )
    yield Figure(name="  CPU to load its two records", value=found["us_per_segment"], unit="us")
    segments = int(SEGMENTS_AT_START * effort.scale)
    found = run_load("tier_metadata", kind="start", segments=segments)
    yield Figure(
        name=f"start until {segments:,} remote segments are loaded",
        value=found["with_snapshot_s"],
        unit="s",
        reference=found["without_s"],
        reference_name="no snapshot",
        ratio=found["with_snapshot_s"] / found["without_s"],
    )
