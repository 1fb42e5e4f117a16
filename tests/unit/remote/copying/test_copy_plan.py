"""Selection of the sealed segments to copy."""

from __future__ import annotations

import pytest

from tests.support.configs import log_config
from tidelog.remote.copying.plan import CopyBacklog, CopyLag, copy_backlog, segments_to_copy
from tidelog.remote.tasks.local_segments import LocalSegment, local_only_bytes

AT_ONCE = CopyLag()
SEGMENTS = [
    LocalSegment(0, 100, 1000, 10),
    LocalSegment(100, 200, 1000, 20),
    LocalSegment(200, 300, 1000, 30),
    LocalSegment(300, 350, 500, 40),
]


def choose_segments(
    copied: int = -1,
    *,
    log_start: int = 0,
    stable: int = 350,
    lag: CopyLag = AT_ONCE,
    now_ms: int = 100,
    segments: list[LocalSegment] = SEGMENTS,
) -> list[int]:
    plan = segments_to_copy(
        segments,
        copied_offset=copied,
        log_start_offset=log_start,
        last_stable_offset=stable,
        lag=lag,
        now_ms=now_ms,
    )
    return [segment.base_offset for segment in plan]


def test_sealed_segments_are_copied_in_order_and_the_active_one_is_not() -> None:
    assert choose_segments() == [0, 100, 200]
    assert choose_segments(segments=SEGMENTS[:1], stable=100) == []


@pytest.mark.parametrize(
    ("stable", "expected"), [(0, []), (99, []), (100, [0]), (299, [0, 100]), (300, [0, 100, 200])]
)
def test_only_segments_below_the_last_stable_offset_are_copied(stable: int, expected: list[int]) -> None:
    assert choose_segments(stable=stable) == expected


def test_copying_continues_after_the_last_remote_offset() -> None:
    assert choose_segments(99) == [100, 200]
    assert choose_segments(299) == []


def test_a_partly_remote_segment_is_copied_completely() -> None:
    assert choose_segments(150) == [100, 200]


def test_segments_below_the_log_start_are_not_copied() -> None:
    assert choose_segments(log_start=250) == [200]
    assert choose_segments(99, log_start=100) == [100, 200]


def test_a_segment_that_has_to_wait_delays_the_later_ones() -> None:
    late_first = [SEGMENTS[0]._replace(largest_timestamp_ms=99), *SEGMENTS[1:]]
    assert choose_segments(segments=late_first, lag=CopyLag(50, None)) == []


@pytest.mark.parametrize(
    ("lag", "expected"),
    [
        (CopyLag(0, 10**9), [0, 100, 200]),
        (CopyLag(10**9, 0), [0, 100, 200]),
        # Old enough: 100 - 10, 100 - 20, 100 - 30.
        (CopyLag(80, 10**9), [0, 100]),
        (CopyLag(80, None), [0, 100]),
        # Bytes after the segment: 2500, 1500, 500.
        (CopyLag(10**9, 1500), [0, 100]),
        (CopyLag(None, 1501), [0]),
        # One of the two conditions is sufficient.
        (CopyLag(90, 1500), [0, 100]),
        # Local retention has no limit, and copies are delayed equally.
        (CopyLag(None, None), []),
    ],
)
def test_a_copy_waits_for_its_age_or_for_newer_bytes(lag: CopyLag, expected: list[int]) -> None:
    assert choose_segments(lag=lag) == expected


def test_a_copy_lag_of_minus_one_is_the_local_retention() -> None:
    assert CopyLag.of(
        log_config(remote_copy_lag_ms=-1, local_retention_ms=7, local_retention_bytes=9)
    ) == CopyLag(7, 9)
    assert CopyLag.of(log_config(remote_copy_lag_ms=-1, retention_ms=-1)) == CopyLag(None, None)
    assert CopyLag.of(log_config()).lag_ms == 0


def test_the_copy_lag_metrics_count_sealed_segments_that_are_not_remote() -> None:
    assert copy_backlog(SEGMENTS, -1) == CopyBacklog(3, 3000)
    assert copy_backlog(SEGMENTS, 99) == CopyBacklog(2, 2000)
    assert copy_backlog(SEGMENTS, 299) == CopyBacklog(0, 0)


def test_bytes_of_remote_segments_do_not_count_as_local_only() -> None:
    assert local_only_bytes(SEGMENTS, -1) == 3500
    assert local_only_bytes(SEGMENTS, 99) == 2500
    assert local_only_bytes(SEGMENTS, 150) == 1500
    assert local_only_bytes(SEGMENTS, 100) == 1500
