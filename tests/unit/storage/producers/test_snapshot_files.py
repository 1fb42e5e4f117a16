"""Producer snapshot files: retention, and crashes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.disks.crash_points import crash_points
from tidelog.storage.producers.producer_entry import ProducerEntry
from tidelog.storage.producers.snapshot_files import SnapshotFiles, flush_snapshot
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL, Survival


@pytest.fixture
def disk() -> CrashFileSystem:
    disk = CrashFileSystem()
    disk.makedirs("/t-0")
    disk.sync_all()
    return disk


def snapshots_at(disk: CrashFileSystem, *offsets: int) -> SnapshotFiles:
    files = SnapshotFiles(disk, "/t-0")
    for offset in offsets:
        files.write(offset, [ProducerEntry(offset)], sync=True)
    return files


def test_file_names_are_the_offset_in_twenty_digits(disk: CrashFileSystem) -> None:
    path = SnapshotFiles(disk, "/t-0").write(42, [], sync=True)
    assert path == "/t-0/00000000000000000042.snapshot"
    assert disk.listdir("/t-0") == ["00000000000000000042.snapshot"]


def test_other_files_in_the_directory_are_not_snapshots(disk: CrashFileSystem) -> None:
    for name in (
        "00000000000000000042.log",
        "x.snapshot",
        "00000000000000000043.snapshot.deleted",
        "7.snapshot",
    ):
        disk.open(f"/t-0/{name}", create=True)
    assert SnapshotFiles(disk, "/t-0").offsets == []


def test_the_newest_valid_snapshot_is_used_and_corrupt_ones_are_deleted(
    disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    files = snapshots_at(disk, 10, 20, 30)
    disk.flip_bit(files.path(30), 77)
    disk.open(files.path(20), create=False).truncate(3)
    with caplog.at_level(logging.WARNING):
        newest = files.read_newest()
    assert newest == (10, [ProducerEntry(10)])
    assert disk.listdir("/t-0") == ["00000000000000000010.snapshot"]
    assert [files.path(30) in caplog.messages[0], files.path(20) in caplog.messages[1]] == [True, True]
    files.delete(10)
    assert files.read_newest() is None


def test_a_repeated_snapshot_replaces_the_first(disk: CrashFileSystem) -> None:
    files = snapshots_at(disk, 10)
    files.write(10, [ProducerEntry(1), ProducerEntry(2)], sync=False)
    assert files.offsets == [10]
    assert files.read_newest() == (10, [ProducerEntry(1), ProducerEntry(2)])


def test_a_snapshot_is_deleted_with_its_segment(disk: CrashFileSystem) -> None:
    files = snapshots_at(disk, 10, 20)
    assert files.mark_for_deletion(10) == "/t-0/00000000000000000010.snapshot.deleted"
    assert files.mark_for_deletion(10) is None
    assert files.offsets == [20]
    disk.unlink(files.path(20))
    assert files.mark_for_deletion(20) is None


@pytest.mark.parametrize(
    ("there", "segments", "left"),
    [
        ([0, 10, 20], [0, 10, 20], [0, 10, 20]),
        ([5, 10, 15, 20, 25], [0, 10, 20], [10, 20, 25]),
        ([5, 21, 25], [20], [25]),
        ([5, 15], [20], []),
        ([5, 15], [], [15]),
        ([], [0], []),
    ],
)
def test_snapshots_without_segment_are_deleted_except_that_of_a_clean_shutdown(
    disk: CrashFileSystem, there: list[int], segments: list[int], left: list[int]
) -> None:
    snapshots_at(disk, *there)
    files = SnapshotFiles(disk, "/t-0")
    files.remove_strays(segments)
    assert files.offsets == left
    assert SnapshotFiles(disk, "/t-0").offsets == left


def test_an_unsynced_snapshot_becomes_durable_by_its_flush(disk: CrashFileSystem) -> None:
    path = SnapshotFiles(disk, "/t-0").write(10, [ProducerEntry(1)], sync=False)
    assert disk.crash(Survival.LOSE_UNSYNCED).listdir("/t-0") == []
    flush_snapshot(disk, path)
    assert SnapshotFiles(disk.crash(Survival.LOSE_UNSYNCED), "/t-0").read_newest() == (10, [ProducerEntry(1)])
    disk.unlink(path)
    flush_snapshot(disk, path)


@pytest.mark.parametrize("sync", [True, False])
def test_after_a_crash_at_any_operation_a_complete_snapshot_is_read(sync: bool) -> None:
    def prepare(disk: CrashFileSystem) -> None:
        disk.makedirs("/t-0")
        snapshots_at(disk, 10)

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        files = SnapshotFiles(disk, "/t-0")
        for offset in (20, 30):
            files.write(offset, [ProducerEntry(offset)] * 3, sync=sync)
            if sync:
                progress.append(offset)

    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(20))):
        newest = SnapshotFiles(point.disk, "/t-0").read_newest()
        assert newest is not None, str(point)
        offset, entries = newest
        assert offset >= max([10, *point.progress]), str(point)
        assert entries == [ProducerEntry(offset)] * (1 if offset == 10 else 3), str(point)
