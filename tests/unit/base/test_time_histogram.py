"""Histograms of durations."""

from __future__ import annotations

import pytest

from tidelog.base.time_histogram import BOUNDS_S, TimeHistogram


@pytest.mark.parametrize("bound_s", BOUNDS_S)
def test_a_time_equal_to_a_bound_is_in_the_lower_bucket(bound_s: float) -> None:
    histogram = TimeHistogram()
    histogram.observe(round(bound_s * 1_000_000_000))
    assert histogram.buckets.index(1) == BOUNDS_S.index(bound_s)


def test_a_time_over_the_last_bound_is_counted_and_summed() -> None:
    histogram = TimeHistogram()
    histogram.observe(31_000_000_000)
    assert histogram.buckets[-1] == 1
    assert histogram.total_ns == 31_000_000_000
