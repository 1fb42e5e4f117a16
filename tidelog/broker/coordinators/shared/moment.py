"""The current time on both clocks, as it is passed to coordinators."""

from __future__ import annotations

from typing import NamedTuple


class Moment(NamedTuple):
    """One moment on two clocks.

    `wall_ms` is for the timestamps of records and may jump; `monotonic_ms` is for timeouts.
    """

    wall_ms: int
    monotonic_ms: int
