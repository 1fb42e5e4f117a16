"""Segments that retention deletes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.configs import log_config
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.retention import LogBounds, RetentionLimits, expired_segments

KEEP_ALL = log_config(retention_ms=-1, retention_bytes=-1)


@dataclass
class FakeSegment:
    base_offset: int
    size_bytes: int = 100
    timestamp: int = 0

    def largest_timestamp(self) -> int:
        return self.timestamp


def expired_offsets(
    segments: list[FakeSegment],
    config: LogConfig,
    *,
    log_start: int = 0,
    high_watermark: int = 40,
    log_end: int = 40,
    now_ms: int = 1_000,
) -> list[int]:
    bounds = LogBounds(log_start, high_watermark, log_end)
    return [
        segment.base_offset
        for segment in expired_segments(segments, RetentionLimits.of(config), bounds, now_ms)
    ]


def four(timestamps: tuple[int, int, int, int] = (0, 0, 0, 0)) -> list[FakeSegment]:
    return [FakeSegment(index * 10, 100, timestamp) for index, timestamp in enumerate(timestamps)]


def test_nothing_is_deleted_without_limits() -> None:
    assert expired_offsets(four(), KEEP_ALL, now_ms=10**15) == []


def test_segments_with_an_expired_maximum_timestamp_are_deleted() -> None:
    config = replace(KEEP_ALL, retention_ms=500)
    assert expired_offsets(four((100, 499, 500, 900)), config) == [0, 10]


def test_a_younger_segment_retains_the_later_ones() -> None:
    config = replace(KEEP_ALL, retention_ms=500)
    assert expired_offsets(four((900, 100, 100, 100)), config) == []


def test_a_timestamp_in_the_future_retains_its_segment() -> None:
    config = replace(KEEP_ALL, retention_ms=500)
    assert expired_offsets(four((10**12, 100, 100, 100)), config, now_ms=10**9) == []


def test_an_expired_active_segment_with_records_is_deleted() -> None:
    config = replace(KEEP_ALL, retention_ms=500)
    assert expired_offsets(four((1, 2, 3, 4)), config) == [0, 10, 20, 30]
    segments = four((1, 2, 3, 4))
    segments[3].size_bytes = 0
    assert expired_offsets(segments, config, log_end=30, high_watermark=30) == [0, 10, 20]


def test_retention_bytes_deletes_whole_segments_and_keeps_at_least_the_limit() -> None:
    assert expired_offsets(four(), replace(KEEP_ALL, retention_bytes=200)) == [0, 10]
    assert expired_offsets(four(), replace(KEEP_ALL, retention_bytes=201)) == [0]
    assert expired_offsets(four(), replace(KEEP_ALL, retention_bytes=400)) == []
    assert expired_offsets(four(), replace(KEEP_ALL, retention_bytes=0)) == [0, 10, 20, 30]


def test_segments_below_the_log_start_are_deleted_with_any_policy() -> None:
    config = replace(KEEP_ALL, cleanup_policy=("compact",), retention_ms=0, retention_bytes=0)
    assert expired_offsets(four(), config, log_start=25) == [0, 10]
    assert expired_offsets(four(), config, log_start=30) == [0, 10, 20]


def test_the_active_segment_is_kept_when_the_log_start_is_the_log_end() -> None:
    assert expired_offsets(four(), KEEP_ALL, log_start=40) == [0, 10, 20]


def test_segments_beyond_the_high_watermark_are_kept() -> None:
    config = replace(KEEP_ALL, retention_ms=0)
    assert expired_offsets(four(), config, high_watermark=19) == [0]
    assert expired_offsets(four(), config, high_watermark=9) == []


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    retention_bytes=st.integers(-1, 200),
    retention_ms=st.integers(-1, 1_500),
    timestamps=st.lists(st.integers(0, 2_000), min_size=8, max_size=8),
    log_start=st.integers(0, 80),
    high_watermark=st.integers(0, 80),
)
def test_only_the_oldest_contiguous_segments_within_the_limits_are_deleted(
    sizes: list[int],
    retention_bytes: int,
    retention_ms: int,
    timestamps: list[int],
    log_start: int,
    high_watermark: int,
) -> None:
    segments = [FakeSegment(i * 10, size, timestamps[i]) for i, size in enumerate(sizes)]
    log_end = len(segments) * 10
    config = replace(KEEP_ALL, retention_bytes=retention_bytes, retention_ms=retention_ms)
    bounds = LogBounds(min(log_start, log_end), min(high_watermark, log_end), log_end)
    expired = expired_segments(segments, RetentionLimits.of(config), bounds, 2_000)
    assert expired == segments[: len(expired)]
    for segment in expired:
        assert segment.base_offset + 10 <= bounds.high_watermark
        below_start = segment.base_offset + 10 <= bounds.log_start_offset
        too_old = retention_ms >= 0 and 2_000 - segment.timestamp > retention_ms
        assert below_start or too_old or retention_bytes >= 0
    if not any(timestamps) and retention_ms < 0 and log_start == 0 and retention_bytes >= 0:
        assert sum(sizes) - sum(segment.size_bytes for segment in expired) >= min(retention_bytes, sum(sizes))
