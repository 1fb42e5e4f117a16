"""One segment: index entries, cached boundaries, truncation."""

from __future__ import annotations

import pytest

from tests.support.configs import log_config
from tests.support.logs.log_checks import check_indexes
from tests.support.logs.partition_logs import batch
from tidelog.protocol.batch import read_header
from tidelog.storage.segment.segment import BOUNDARIES_MAX, LogSegment
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = log_config(index_interval_bytes=150)


@pytest.fixture
def disk() -> CrashFileSystem:
    disk = CrashFileSystem()
    disk.makedirs("/log")
    return disk


@pytest.fixture
def segment(disk: CrashFileSystem) -> LogSegment:
    return LogSegment(disk, "/log", 100, CONFIG, 5, create=True)


def add(segment: LogSegment, *batches: tuple[int, int, int]) -> int:
    """Append batches, given as (base offset, record count, timestamp), together; return the size of one."""
    data = bytearray()
    headers = []
    for base_offset, count, timestamp in batches:
        one = batch(["value"] * count, base_offset=base_offset, timestamps=timestamp)
        headers.append(read_header(one))
        data += one
    segment.append(data, headers)
    return headers[-1].size_bytes


def is_due_to_roll(segment: LogSegment, *, segment_ms: int, now_ms: int, max_timestamp: int) -> bool:
    """Return whether a small batch with `max_timestamp` belongs to a new segment."""
    return segment.is_due_to_roll(log_config(segment_ms=segment_ms), 1, 200, max_timestamp, now_ms)


def test_an_index_entry_is_written_after_each_interval(segment: LogSegment) -> None:
    size = 0
    for index in range(8):
        size = add(segment, (100 + index, 1, index))
    per_entry = 150 // size + 1
    offsets = [entry.offset for entry in segment.offset_index.entries()]
    assert offsets == [100 + number for number in range(per_entry, 8, per_entry)]
    check_indexes(segment, is_sealed=False)


def test_batches_appended_together_get_separate_entries(segment: LogSegment) -> None:
    add(segment, *((100 + index, 1, index) for index in range(8)))
    assert segment.offset_index.entry_count > 1
    check_indexes(segment, is_sealed=False)


def test_the_time_index_holds_the_largest_timestamp_so_far(segment: LogSegment) -> None:
    for index, timestamp in enumerate([50, 40, 60, 10, 10, 70, 5, 5]):
        add(segment, (100 + index, 1, timestamp))
    check_indexes(segment, is_sealed=False)
    assert (segment.max_timestamp, segment.offset_of_max_timestamp) == (70, 105)
    segment.seal()
    check_indexes(segment, is_sealed=True)


def test_the_first_batch_that_reaches_the_offset_is_found(segment: LogSegment) -> None:
    add(segment, (100, 3, 1), (103, 1, 1), (110, 2, 1))
    places = [segment.find(offset) for offset in (100, 102, 103, 104, 111, 112)]
    assert [place and place.header.base_offset for place in places] == [100, 100, 103, 110, 110, None]
    assert segment.position_of(112) == segment.size_bytes


def test_batch_boundaries_are_cached_within_a_bound(segment: LogSegment) -> None:
    for index in range(BOUNDARIES_MAX * 2):
        add(segment, (100 + index, 1, 1))
    assert segment._boundaries.get(100) is None
    last = 100 + BOUNDARIES_MAX * 2
    assert segment._boundaries.get(last) == segment.size_bytes
    cached_count = sum(segment._boundaries.get(offset) is not None for offset in range(100, last + 1))
    assert BOUNDARIES_MAX // 2 <= cached_count <= BOUNDARIES_MAX


@pytest.mark.parametrize("limit_batches", [0, 1, 2, 7])
def test_the_last_boundary_below_a_limit_is_found(segment: LogSegment, limit_batches: int) -> None:
    size = 0
    for index in range(8):
        size = add(segment, (100 + index, 1, 1))
    for limit in (limit_batches * size, limit_batches * size + size - 1):
        expected = (limit_batches * size, 100 + limit_batches) if limit_batches else (0, -1)
        assert segment.boundary_at_or_before(limit, 0) == expected


def test_a_truncation_removes_batches_and_index_entries(segment: LogSegment) -> None:
    for index in range(8):
        add(segment, (100 + index, 1, index))
    segment.truncate_to(104)
    assert segment.next_offset() == 104
    assert (segment.max_timestamp, segment.offset_of_max_timestamp) == (3, 103)
    check_indexes(segment, is_sealed=False)
    segment.truncate_to(100)
    assert (segment.size_bytes, segment.max_timestamp, segment.first_timestamp) == (0, -1, None)


def test_the_end_of_a_truncation_within_a_batch_is_computed(segment: LogSegment) -> None:
    add(segment, (100, 5, 1))
    add(segment, (105, 5, 1))
    assert [segment.end_offset_when_cut_to(offset) for offset in (100, 104, 105, 107, 110)] == [
        100,
        100,
        105,
        105,
        110,
    ]


def test_a_reopened_segment_has_its_offsets_and_timestamps(
    disk: CrashFileSystem, segment: LogSegment
) -> None:
    for index in range(8):
        add(segment, (100 + index, 1, 50 - index))
    segment.complete_indexes()
    segment.files.close()
    again = LogSegment(disk, "/log", 100, CONFIG, 9, create=False)
    assert (again.next_offset(), again.max_timestamp, again.first_timestamp) == (108, 50, 50)
    assert is_due_to_roll(again, segment_ms=24, now_ms=0, max_timestamp=75)
    assert not is_due_to_roll(again, segment_ms=25, now_ms=0, max_timestamp=75)
    check_indexes(again, is_sealed=True)


def test_the_modification_time_replaces_missing_timestamps(segment: LogSegment) -> None:
    add(segment, (100, 1, -1))
    assert is_due_to_roll(segment, segment_ms=6, now_ms=12, max_timestamp=999)
    assert not is_due_to_roll(segment, segment_ms=7, now_ms=12, max_timestamp=999)
    assert segment.largest_timestamp() == 5


def test_files_are_renamed_together_and_missing_ones_are_skipped(
    disk: CrashFileSystem, segment: LogSegment
) -> None:
    renamed = segment.files.rename(disk, "", ".deleted")
    assert len(renamed) == 3, "there is no transaction index"
    assert sorted(f"/log/{name}" for name in disk.listdir("/log")) == sorted(renamed)
