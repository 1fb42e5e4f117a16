"""Replacing the content of a file: crashes, a full disk, a failed fsync."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from tests.support.disks.crash_points import crash_points
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import write_atomically
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL

FS = OsFileSystem()


def test_write_atomically_replaces_content_without_leftovers(tmp_path: Path) -> None:
    path = f"{tmp_path}/checkpoint"
    Path(f"{path}.tmp").write_bytes(b"longer rest of an earlier crash")
    write_atomically(FS, path, b"one")
    write_atomically(FS, path, b"two")
    assert (FS.read(path), FS.listdir(str(tmp_path))) == (b"two", ["checkpoint"])


def test_write_atomically_leaves_old_or_new_content_after_a_crash_at_any_operation() -> None:
    old, new = b"old content" * 100, b"the new one, of another length" * 77

    def prepare(disk: CrashFileSystem) -> None:
        disk.makedirs("/log")
        write_atomically(disk, "/log/checkpoint", old)

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        write_atomically(disk, "/log/checkpoint", new)
        progress.append("acknowledged")
        write_atomically(disk, "/log/checkpoint", new)

    count = 0
    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(30))):
        allowed = (new,) if point.progress else (old, new)
        assert point.disk.read("/log/checkpoint") in allowed, str(point)
        write_atomically(point.disk, "/log/checkpoint", b"after")
        assert point.disk.read("/log/checkpoint") == b"after", (
            "files left by the crash do not prevent the next write"
        )
        count += 1
    assert count > 300


@pytest.mark.parametrize("removed", ["file", "directory"])
def test_the_crash_test_detects_a_missing_sync_in_write_atomically(removed: str) -> None:
    """Ablation: the crash points detect a missing sync."""

    def write(disk: CrashFileSystem, data: bytes) -> None:
        file = disk.open("/c.tmp", create=True)
        file.append(data)
        if removed != "file":
            file.fsync()
        disk.rename("/c.tmp", "/c")
        if removed != "directory":
            disk.fsync_dir("/")

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        write(disk, b"new")
        progress.append("acknowledged")

    violations = [
        point
        for point in crash_points(lambda disk: write_atomically(disk, "/c", b"old"), workload)
        if point.disk.read("/c") not in ((b"new",) if point.progress else (b"old", b"new"))
    ]
    assert violations


def test_a_full_disk_leaves_the_old_content() -> None:
    disk = CrashFileSystem(free_bytes=20)
    write_atomically(disk, "/c", b"0123456789")
    with pytest.raises(OSError) as failure:
        write_atomically(disk, "/c", b"0123456789abcdef")
    assert failure.value.errno == errno.ENOSPC
    assert disk.read("/c") == b"0123456789"


def test_a_failed_fsync_leaves_the_old_content_and_is_reported() -> None:
    disk = CrashFileSystem()
    write_atomically(disk, "/c", b"old")
    disk.fail_next_fsync("/c.tmp")
    with pytest.raises(StorageFailure, match=r"/c\.tmp"):
        write_atomically(disk, "/c", b"new")
    assert disk.read("/c") == b"old"
