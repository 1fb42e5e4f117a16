"""One moment on the two clocks that coordinators are given."""

from __future__ import annotations

from typing import NamedTuple


class Moment(NamedTuple):
    """One moment on two clocks: `wall_ms` stamps records and may jump, `monotonic_ms` measures time-outs."""

    wall_ms: int
    monotonic_ms: int
