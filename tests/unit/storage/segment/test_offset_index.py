"""The offset index compared with a plain list and with files of Kafka, and corrupt files."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import GOLDEN_FILES
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.segment.offset_index import ENTRY_SIZE, MAX_RELATIVE_OFFSET, OffsetIndex, OffsetPosition
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

GOLDEN = GOLDEN_FILES / "storage"
BASE = 1000
KAFKAS_ENTRIES = [
    (1003, 4100),
    (1010, 8300),
    (1999, 2147480000),
    (BASE + MAX_RELATIVE_OFFSET, MAX_RELATIVE_OFFSET),
]


def index_on(disk: CrashFileSystem, max_bytes: int = 8000, base_offset: int = BASE) -> OffsetIndex:
    return OffsetIndex(disk.open("/i.index", create=True), base_offset, max_bytes)


def index_with(data: bytes) -> OffsetIndex:
    disk = CrashFileSystem()
    disk.open("/i.index", create=True).append(data)
    return index_on(disk)


def test_entries_equal_kafkas_bytes() -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    for offset, position in KAFKAS_ENTRIES:
        index.append(offset, position)
    index.write()
    assert disk.read("/i.index") == (GOLDEN / "00000000000000001000.index").read_bytes()


def test_kafkas_file_is_read() -> None:
    file = OsFileSystem().open(str(GOLDEN / "00000000000000001000.index"), create=False)
    index = OffsetIndex(file, BASE, 8000)
    index.sanity_check()
    assert list(index.entries()) == KAFKAS_ENTRIES
    assert index.last_offset == BASE + MAX_RELATIVE_OFFSET
    index.close()


def test_preallocated_zeros_of_kafka_are_no_entries_and_are_removed() -> None:
    preallocated = (GOLDEN / "preallocated.index").read_bytes()
    assert preallocated.endswith(bytes(64))
    disk = CrashFileSystem()
    disk.open("/i.index", create=True).append(preallocated)
    index = index_on(disk)
    assert list(index.entries()) == KAFKAS_ENTRIES
    assert index.lookup(1500) == (1010, 8300)
    index.truncate_to(1999)
    index.append(1500, 9000)
    index.write()
    assert disk.read("/i.index") == preallocated[:16] + bytes.fromhex("000001f400002328")


def test_a_file_of_zeros_is_an_empty_index() -> None:
    index = index_with(bytes(800))
    assert (index.entry_count, index.last_offset, index.lookup(5000)) == (0, BASE, (BASE, 0))


def test_a_lookup_below_the_first_entry_starts_at_position_0() -> None:
    index = index_with(b"")
    assert index.lookup(BASE + 5) == (BASE, 0)
    index.append(BASE + 3, 77)
    assert index.lookup(BASE + 2) == (BASE, 0)
    assert index.lookup(BASE + 3) == (BASE + 3, 77)


def test_an_index_is_full_without_space_for_an_entry() -> None:
    index = index_on(CrashFileSystem(), max_bytes=2 * ENTRY_SIZE + 7)
    index.append(1001, 10)
    assert not index.is_full
    index.append(1002, 20)
    assert index.is_full
    with pytest.raises(AssertionError, match="full"):
        index.append(1003, 30)


def test_an_offset_must_increase_and_fit_into_31_bits() -> None:
    index = index_with(b"")
    index.append(BASE + 10, 10)
    for offset in (BASE + 10, BASE + 9, BASE + MAX_RELATIVE_OFFSET + 1):
        with pytest.raises(AssertionError, match=str(offset)):
            index.append(offset, 20)
    index.append(BASE + MAX_RELATIVE_OFFSET, 20)
    assert index.last_offset == BASE + MAX_RELATIVE_OFFSET


def test_a_truncated_entry_is_reported() -> None:
    index = index_with(bytes.fromhex("00000003000010040000"))
    with pytest.raises(CorruptIndex, match=r"/i\.index: its 10 bytes") as damage:
        index.sanity_check()
    assert damage.value.path == "/i.index"


def test_a_truncated_entry_is_removed_before_the_next_append() -> None:
    disk = CrashFileSystem()
    disk.open("/i.index", create=True).append(bytes.fromhex("00000003000010040000"))
    index = index_on(disk)
    index.append(BASE + 4, 9)
    index.write()
    assert list(index_on(disk).entries()) == [(BASE + 3, 0x1004), (BASE + 4, 9)]


def test_a_last_offset_below_the_base_offset_is_corruption() -> None:
    with pytest.raises(CorruptIndex, match="below the base offset 1000"):
        index_with(bytes.fromhex("ffffffff00000004")).sanity_check()


def test_a_file_that_shrank_is_corruption_and_gives_no_wrong_result() -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    for offset in range(1001, 1100):
        index.append(offset, offset)
    index.unload()
    disk.open("/i.index", create=False).truncate(80)
    with pytest.raises(CorruptIndex, match=r"/i\.index"):
        index.lookup(1099)


def test_a_failed_write_keeps_entries_in_memory_for_the_next_one() -> None:
    disk = CrashFileSystem(free_bytes=20)
    index = index_on(disk)
    index.append(1001, 1)
    index.append(1002, 2)
    index.write()
    index.append(1003, 3)
    with pytest.raises(OSError):
        index.write()
    assert (index.entry_count, index.lookup(1003)) == (3, (1003, 3))
    assert disk.size("/i.index") == 16
    disk.free_bytes = None
    index.unload()
    assert list(index_on(disk).entries()) == [(1001, 1), (1002, 2), (1003, 3)]


def test_buffered_entries_are_found_and_truncated_and_written_at_unload() -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    for offset in range(1001, 1011):
        index.append(offset, offset)
    assert disk.size("/i.index") == 0
    assert index.lookup(1007) == (1007, 1007)
    index.truncate_to(1009)
    index.unload()
    assert disk.size("/i.index") == 8 * ENTRY_SIZE
    assert index.lookup(1020) == (1008, 1008)


increasing = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=700)


@settings(max_examples=60, deadline=None)
@given(steps=increasing, in_memory=st.booleans(), cut=st.integers(-5, 36000), data=st.data())
def test_lookups_equal_a_sorted_list(
    steps: list[tuple[int, int]], in_memory: bool, cut: int, data: st.DataObject
) -> None:
    disk = CrashFileSystem()
    index = index_on(disk)
    model: list[OffsetPosition] = []
    offset, position = BASE, 0
    for up, forward in steps:
        offset, position = offset + up, position + forward
        index.append(offset, position)
        model.append(OffsetPosition(offset, position))
    if not in_memory:
        index.unload()

    def check(index: OffsetIndex) -> None:
        offsets, positions = [entry.offset for entry in model], [entry.position for entry in model]
        index.sanity_check()
        assert index.entry_count == len(model)
        assert index.last_offset == (offsets[-1] if offsets else BASE)
        assert list(index.entries()) == model
        for target in data.draw(st.lists(st.integers(BASE - 5, offset + 5), max_size=8)):
            slot = bisect_right(offsets, target)
            assert index.lookup(target) == (model[slot - 1] if slot else (BASE, 0))
        for target in data.draw(st.lists(st.integers(0, position + 5), max_size=8)):
            slot = bisect_left(positions, target)
            assert index.first_at_or_after_position(target) == (model[slot] if slot < len(model) else None)

    check(index)
    index.truncate_to(BASE + cut)
    model = [entry for entry in model if entry.offset < BASE + cut]
    check(index)
    index.write()
    check(index_on(disk))
    index.append(offset + 1, position + 1)
    assert index.lookup(offset + 1) == (offset + 1, position + 1)
    index.truncate()
    index.write()
    assert (index.entry_count, index.last_offset, disk.size("/i.index")) == (0, BASE, 0)


def test_a_large_sealed_index_is_searched_on_disk_by_block() -> None:
    disk = CrashFileSystem()
    entries = b"".join(struct.pack(">ii", 3 * slot, 7 * slot + 1) for slot in range(1, 5001))
    disk.open("/i.index", create=True).append(entries)
    index = index_on(disk, max_bytes=len(entries))
    assert index.is_full
    for slot in range(1, 5000):
        assert index.lookup(BASE + 3 * slot + slot % 3) == (BASE + 3 * slot, 7 * slot + 1)
    assert index.lookup(BASE + 2) == (BASE, 0)
    assert index.lookup(BASE + 10**9) == (BASE + 15000, 35001)
