"""The simulated disk loses what POSIX allows a disk to lose, and nothing that was synced."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.support.disks.crash_points import CrashPoint, crash_points
from tidelog.storage.disk.errors import StorageFailure
from tidelog.testing.simulation.crash_file_system import CrashFileSystem, SimulatedCrash
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL, Survival


@pytest.fixture
def disk() -> CrashFileSystem:
    """Return a disk with an empty durable directory /log."""
    disk = CrashFileSystem()
    disk.makedirs("/log")
    disk.sync_all()
    return disk


def durable_file(disk: CrashFileSystem, path: str, data: bytes) -> None:
    disk.open(path, create=True).append(data)
    disk.sync_all()


def test_unsynced_data_may_be_lost_kept_or_partly_written(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"old")
    disk.open("/log/a", create=False).append(b"12345678")
    assert disk.read("/log/a") == b"old12345678"
    assert disk.crash(Survival.KEEP_ALL).read("/log/a") == b"old12345678"
    assert disk.crash(Survival.LOSE_UNSYNCED).read("/log/a") == b"old"
    assert disk.crash(Survival.TEAR_LAST).read("/log/a") == b"old1234"
    assert disk.crash(Survival.ZERO_LAST).read("/log/a") == b"old" + bytes(8)


def test_synced_data_always_survives(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"old")
    file = disk.open("/log/a", create=False)
    file.append(b"new")
    file.fsync()
    for survival in [*EVERY_SURVIVAL, *range(50)]:
        assert disk.crash(survival).read("/log/a") == b"oldnew"


def test_fsync_does_not_make_a_new_name_durable(disk: CrashFileSystem) -> None:
    file = disk.open("/log/a", create=True)
    file.append(b"x")
    file.fsync()
    assert disk.crash(Survival.LOSE_UNSYNCED).listdir("/log") == []
    disk.fsync_dir("/log")
    assert disk.crash(Survival.LOSE_UNSYNCED).read("/log/a") == b"x"


def test_a_name_may_survive_without_its_data(disk: CrashFileSystem) -> None:
    disk.open("/log/a.tmp", create=True).append(b"x")
    disk.rename("/log/a.tmp", "/log/a")
    assert disk.crash(Survival.KEEP_NAMES_ONLY).read("/log/a") == b""


def test_renames_and_deletions_are_undone_without_a_directory_sync(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"a")
    durable_file(disk, "/log/b", b"b")
    disk.rename("/log/a", "/log/c")
    disk.unlink("/log/b")
    assert disk.listdir("/log") == ["c"]
    assert disk.crash(Survival.LOSE_UNSYNCED).listdir("/log") == ["a", "b"]
    disk.fsync_dir("/log")
    assert disk.crash(Survival.LOSE_UNSYNCED).listdir("/log") == ["c"]


def test_a_rename_is_atomic(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"new")
    durable_file(disk, "/log/b", b"old")
    disk.rename("/log/a", "/log/b")
    for seed in range(100):
        after = disk.crash(seed)
        assert (after.listdir("/log"), after.read("/log/b")) in ((["a", "b"], b"old"), (["b"], b"new"))


def test_a_name_survives_only_if_all_earlier_changes_in_its_directory_survive(disk: CrashFileSystem) -> None:
    for name in "abcd":
        disk.open(f"/log/{name}", create=True)
    listings = {"".join(disk.crash(seed).listdir("/log")) for seed in range(200)}
    assert listings == {"", "a", "ab", "abc", "abcd"}


def test_a_new_directory_needs_a_sync_of_its_parent(disk: CrashFileSystem) -> None:
    disk.makedirs("/log/t-0")
    file = disk.open("/log/t-0/a", create=True)
    file.append(b"x")
    file.fsync()
    disk.fsync_dir("/log/t-0")
    assert disk.crash(Survival.LOSE_UNSYNCED).listdir("/log") == []
    disk.fsync_dir("/log")
    assert disk.crash(Survival.LOSE_UNSYNCED).read("/log/t-0/a") == b"x"


def test_pages_of_a_failed_fsync_are_lost_after_the_next_one(
    disk: CrashFileSystem,
) -> None:
    durable_file(disk, "/log/a", b"old")
    file = disk.open("/log/a", create=False)
    file.append(b"lost")
    disk.fail_next_fsync("/log/a")
    with pytest.raises(StorageFailure, match="/log/a"):
        file.fsync()
    file.fsync()
    assert disk.read("/log/a") == b"oldlost", "the cache still has data that is not on the medium"
    assert disk.crash(Survival.KEEP_ALL).read("/log/a") == b"old"


def test_a_full_disk_writes_nothing_of_an_append(disk: CrashFileSystem) -> None:
    disk.free_bytes = 10
    file = disk.open("/log/a", create=True)
    file.append(b"1234567")
    with pytest.raises(OSError) as failure:
        file.append(b"89abcdef")
    assert failure.value.errno == errno.ENOSPC
    assert disk.read("/log/a") == b"1234567"
    file.append(b"890")
    assert disk.space("/log").usable_bytes == 0
    disk.unlink("/log/a")
    assert disk.space("/log").usable_bytes == 10


def test_a_flipped_bit_is_visible_at_once_and_after_a_crash(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"\x00\x00")
    disk.flip_bit("/log/a", 9)
    assert disk.read("/log/a") == b"\x00\x02"
    assert disk.crash(Survival.LOSE_UNSYNCED).read("/log/a") == b"\x00\x02"


def test_operations_fail_after_a_power_failure(disk: CrashFileSystem) -> None:
    disk.crash_at = 1
    with pytest.raises(SimulatedCrash):
        disk.makedirs("/log/t-0")
    with pytest.raises(SimulatedCrash):
        disk.exists("/log")


def test_a_reopened_disk_has_all_changes_and_may_still_lose_them(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"1")
    file = disk.open("/log/a", create=False)
    file.append(b"2")
    reopened = disk.reopened()
    with pytest.raises(SimulatedCrash):
        file.append(b"3")
    assert reopened.read("/log/a") == b"12"
    assert reopened.crash(Survival.LOSE_UNSYNCED).read("/log/a") == b"1"


def test_a_change_in_which_the_process_ends_has_no_effect(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"1")

    def end(text: str) -> None:
        raise SimulatedCrash(text)

    disk.on_operation = end
    with pytest.raises(SimulatedCrash, match="append 1 bytes to /log/a"):
        disk.open("/log/a", create=False).append(b"2")
    assert disk.read("/log/a") == b"1"


def test_a_seed_determines_the_disk(disk: CrashFileSystem) -> None:
    for name in "abcdef":
        disk.open(f"/log/{name}", create=True).append(b"0123456789" * 200)

    def content(after: CrashFileSystem) -> list[tuple[str, bytes]]:
        return [(name, after.read(f"/log/{name}")) for name in after.listdir("/log")]

    left = [content(disk.crash(seed)) for seed in range(40)]
    assert left == [content(disk.crash(seed)) for seed in range(40)]
    assert len({str(one) for one in left}) > 15


def test_unordered_writes_leave_holes_of_zeros(disk: CrashFileSystem) -> None:
    file = disk.open("/log/a", create=True)
    disk.sync_all()
    file.append(b"1111")
    file.append(b"2222")
    assert bytes(4) + b"2222" in {disk.crash(seed).read("/log/a") for seed in range(100)}


def test_every_operation_is_a_crash_point() -> None:
    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        file = disk.open("/a", create=True)
        file.append(b"x")
        file.fsync()
        disk.fsync_dir("/")
        progress.append("durable")

    def is_kept(point: CrashPoint) -> bool:
        return point.disk.exists("/a") and point.disk.read("/a") == b"x"

    points = list(crash_points(lambda disk: None, workload, (Survival.LOSE_UNSYNCED, Survival.KEEP_ALL)))
    assert [point.text for point in points[::2]] == [
        "create /a",
        "append 1 bytes to /a",
        "fsync /a",
        "fsync_dir /",
        "the end",
    ]
    assert [is_kept(point) for point in points[::2]] == [False, False, False, False, True]
    assert [is_kept(point) for point in points[1::2]] == [False, True, True, True, True]
    assert [bool(point.progress) for point in points[::2]] == [False, False, False, False, True]


def test_operations_of_a_failing_disk_raise_eio_and_change_nothing(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"1")
    file = disk.open("/log/a", create=False)
    file.append(b"2")
    disk.fails_now = lambda: True
    for operation in (lambda: file.append(b"3"), lambda: file.pread(1, 0), lambda: disk.read("/log/a")):
        with pytest.raises(OSError) as failure:
            operation()
        assert failure.value.errno == errno.EIO
    with pytest.raises(StorageFailure, match="Input/output error"):
        file.fsync()
    assert disk.reopened().fails_now is disk.fails_now
    disk.fails_now = None


def test_the_first_unsynced_byte_is_that_of_the_lowest_write(disk: CrashFileSystem) -> None:
    durable_file(disk, "/log/a", b"123")
    assert disk.first_unsynced("/log/a") is None
    disk.open("/log/a", create=False).append(b"45")
    disk.open("/log/a", create=False).append(b"6")
    assert disk.first_unsynced("/log/a") == 3
