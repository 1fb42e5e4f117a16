"""A file that exists only once it has content."""

from __future__ import annotations

import io

import pytest

from storage.lazy_file import LazyFile
from tests.support.crash_fs import CrashFileSystem
from tests.support.crash_images import Survival


def test_it_is_empty_and_absent_until_the_first_write() -> None:
    disk = CrashFileSystem()
    file = LazyFile(disk, "/a")
    assert (file.size(), file.pread(10, 0)) == (0, b"")
    file.truncate(0)
    file.fsync()
    file.close()
    assert not disk.exists("/a")
    with pytest.raises(io.UnsupportedOperation, match="/a"):
        file.fileno()


def test_its_first_sync_makes_the_name_durable_too() -> None:
    disk = CrashFileSystem()
    file = LazyFile(disk, "/a")
    file.append(b"x")
    file.fsync()
    assert disk.crash(Survival.LOSE_UNSYNCED).read("/a") == b"x"
    before = disk.operation_count
    file.fsync()
    assert disk.operation_count == before + 1, "the directory is synced once"


def test_an_existing_file_is_opened_at_once() -> None:
    disk = CrashFileSystem()
    disk.open("/a", create=True).append(b"12345")
    file = LazyFile(disk, "/a")
    file.truncate(4)
    file.append(b"x")
    file.pwrite(b"y", 0)
    assert (file.size(), file.pread(9, 0)) == (5, b"y234x")
