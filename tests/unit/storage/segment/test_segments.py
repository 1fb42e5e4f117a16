"""Finding segments by offset."""

from __future__ import annotations

import pytest

from tests.support.configs import log_config
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segments import Segments
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def disk() -> CrashFileSystem:
    disk = CrashFileSystem()
    disk.makedirs("/log")
    return disk


def segments_at(disk: CrashFileSystem, *base_offsets: int) -> Segments:
    segments = Segments()
    for base_offset in base_offsets:
        segments.add(LogSegment(disk, "/log", base_offset, log_config(), 0, create=True))
    return segments


def test_segments_are_ordered_by_base_offset(disk: CrashFileSystem) -> None:
    segments = segments_at(disk, 20, 0, 10)
    assert segments.base_offsets == [0, 10, 20]
    assert segments.first.base_offset == 0
    assert segments.active.base_offset == 20
    assert len(segments) == 3


def test_neighbours_are_found_by_offset(disk: CrashFileSystem) -> None:
    segments = segments_at(disk, 5, 10, 20)

    def base(segment: LogSegment | None) -> int | None:
        return None if segment is None else segment.base_offset

    assert [base(segments.floor(offset)) for offset in (4, 5, 9, 10, 99)] == [None, 5, 5, 10, 20]
    assert [base(segments.higher(offset)) for offset in (0, 5, 10, 20)] == [5, 10, 20, None]
    assert [segment.base_offset for segment in segments.from_offset(12)] == [10, 20]
    assert [segment.base_offset for segment in segments.from_offset(0)] == [5, 10, 20]
    assert [segment.base_offset for segment in segments.starting_above(10)] == [20]


def test_a_second_segment_with_the_same_base_offset_is_a_bug(disk: CrashFileSystem) -> None:
    segments = segments_at(disk, 5)
    with pytest.raises(AssertionError, match="5"):
        segments.add(segments.first)


def test_a_removed_segment_is_not_found(disk: CrashFileSystem) -> None:
    segments = segments_at(disk, 0, 10)
    segments.remove(segments.first)
    assert segments.base_offsets == [10]
