"""The time index compared with a plain list and Kafka's own files, and corrupt files."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import GOLDEN_FILES
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.segment.time_index import ENTRY_SIZE, TimeIndex, TimestampOffset
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

GOLDEN = GOLDEN_FILES / "storage"
BASE = 1000
KAFKAS_ENTRIES = [(1700000000000, 1003), (1700000000001, 1010), (1800000000000, 1999)]


def index_on(disk: CrashFileSystem, max_bytes: int = 12000) -> TimeIndex:
    return TimeIndex(disk.open("/i.timeindex", create=True), BASE, max_bytes)


def index_with(data: bytes) -> TimeIndex:
    disk = CrashFileSystem()
    disk.open("/i.timeindex", create=True).append(data)
    return index_on(disk)


def entry(timestamp: int, relative_offset: int) -> bytes:
    return timestamp.to_bytes(8, "big", signed=True) + relative_offset.to_bytes(4, "big", signed=True)


def test_entries_equal_kafkas_bytes() -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    index.maybe_append(1700000000000, 1003)
    index.maybe_append(1700000000000, 1004)
    index.maybe_append(1700000000001, 1010)
    index.maybe_append(1800000000000, 1999)
    index.write()
    assert disk.read("/i.timeindex") == (GOLDEN / "00000000000000001000.timeindex").read_bytes()


def test_kafkas_file_is_read() -> None:
    file = OsFileSystem().open(str(GOLDEN / "00000000000000001000.timeindex"), create=False)
    index = TimeIndex(file, BASE, 12000)
    index.sanity_check()
    assert list(index.entries()) == KAFKAS_ENTRIES
    assert index.last_entry == (1800000000000, 1999)
    assert index.size_bytes == 36
    index.close()


def test_preallocated_zeros_of_kafka_are_no_entries() -> None:
    index = index_with((GOLDEN / "preallocated.timeindex").read_bytes())
    index.sanity_check()
    assert list(index.entries()) == KAFKAS_ENTRIES
    assert index.lookup(1750000000000) == (1700000000001, 1010)


def test_an_empty_index_has_no_timestamp() -> None:
    index = index_with(b"")
    assert index.last_entry == (-1, BASE)
    assert index.lookup(1700000000000) == (-1, BASE)


def test_a_timestamp_that_does_not_increase_is_not_written() -> None:
    index = index_with(b"")
    index.maybe_append(-1, 1000)
    assert index.entry_count == 0
    index.maybe_append(50, 1001)
    index.maybe_append(50, 1002)
    assert list(index.entries()) == [(50, 1001)]


def test_decreasing_offsets_and_timestamps_are_refused() -> None:
    index = index_with(b"")
    index.maybe_append(50, 1005)
    with pytest.raises(AssertionError, match="offset 1004"):
        index.maybe_append(60, 1004)
    with pytest.raises(AssertionError, match="timestamp 49"):
        index.maybe_append(49, 1006)


def test_the_last_entry_is_reserved_for_the_roll() -> None:
    index = index_on(CrashFileSystem(), max_bytes=3 * ENTRY_SIZE)
    index.maybe_append(1, 1001)
    assert not index.is_full
    index.maybe_append(2, 1002)
    assert index.is_full
    with pytest.raises(AssertionError, match="full"):
        index.maybe_append(3, 1003)
    index.maybe_append(3, 1003, skip_full_check=True)
    assert index.last_entry == (3, 1003)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (entry(5, 1) + b"\0\0\0", "its 15 bytes"),
        (entry(5, 1) + entry(4, 2), "last timestamp 4 is below its first, 5"),
        (entry(5, -3), "last offset 997 is below the base offset 1000"),
    ],
)
def test_corruption_is_reported(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptIndex, match=rf"/i\.timeindex: .*{reason}"):
        index_with(data).sanity_check()


steps_strategy = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=700)


@settings(max_examples=60, deadline=None)
@given(steps=steps_strategy, in_memory=st.booleans(), cut=st.integers(-3, 7000), data=st.data())
def test_lookups_equal_a_sorted_list(
    steps: list[tuple[int, int]], in_memory: bool, cut: int, data: st.DataObject
) -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    model: list[TimestampOffset] = []
    timestamp, offset = 0, BASE
    for later, further in steps:
        timestamp, offset = timestamp + later, offset + further
        index.maybe_append(timestamp, offset)
        if not model or timestamp > model[-1].timestamp:
            model.append(TimestampOffset(timestamp, offset))
    if not in_memory:
        index.unload()

    def check(index: TimeIndex) -> None:
        index.sanity_check()
        assert list(index.entries()) == model
        assert index.last_entry == (model[-1] if model else (-1, BASE))
        for target in data.draw(st.lists(st.integers(-1, timestamp + 5), max_size=8)):
            slot = bisect_right([entry.timestamp for entry in model], target)
            assert index.lookup(target) == (model[slot - 1] if slot else (-1, BASE))

    check(index)
    index.truncate_to(BASE + cut)
    model = [entry for entry in model if entry.offset < BASE + cut]
    check(index)
    index.write()
    check(index_on(disk))
    index.maybe_append(timestamp + 1, offset + 1)
    assert index.lookup(timestamp + 1) == (timestamp + 1, offset + 1)
    index.truncate()
    index.write()
    assert (index.entry_count, disk.size("/i.timeindex")) == (0, 0)
