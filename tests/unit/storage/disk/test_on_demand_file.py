"""A file that holds a descriptor only while it needs one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.files import File
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival


def open_paths(folder: Path) -> list[str]:
    """Return the files in `folder` that this process has open."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    paths = [os.readlink(link) for link in links if os.path.lexists(link)]
    return sorted(Path(path).name for path in paths if path.startswith(f"{folder}/"))


def write_file(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def test_a_missing_file_is_empty_and_stays_absent_until_the_first_write() -> None:
    disk = CrashFileSystem()
    file = OnDemandFile(disk, "/a")
    assert (file.exists, file.size(), file.pread(10, 0)) == (False, 0, b"")
    file.truncate(0)
    file.fsync()
    file.close()
    assert not disk.exists("/a")


def test_the_first_sync_also_syncs_the_directory() -> None:
    disk = CrashFileSystem()
    file = OnDemandFile(disk, "/a")
    file.append(b"x")
    file.fsync()
    assert disk.crash(Survival.LOSE_UNSYNCED).read("/a") == b"x"
    before = disk.operation_count
    file.append(b"y")
    file.fsync()
    assert disk.operation_count == before + 2, "the directory is synced once"


def test_an_existing_file_is_changed_in_place() -> None:
    disk = CrashFileSystem()
    disk.open("/a", create=True).append(b"12345")
    file = OnDemandFile(disk, "/a")
    file.truncate(4)
    file.append(b"x")
    file.pwrite(b"y", 0)
    assert (file.size(), file.pread(9, 0)) == (5, b"y234x")


def test_a_descriptor_is_held_while_changes_are_unsynced(tmp_path: Path) -> None:
    file = OnDemandFile(OsFileSystem(), str(tmp_path / "a"))
    file.append(b"x")
    assert open_paths(tmp_path) == ["a"]
    file.fsync()
    assert open_paths(tmp_path) == []


def test_changes_made_during_a_sync_keep_the_descriptor(tmp_path: Path) -> None:
    file = OnDemandFile(OsFileSystem(), str(tmp_path / "a"))
    file.append(b"x")
    changes = file.unsynced_changes()
    assert changes is not None
    changes.file.fsync()
    file.append(b"y")
    file.on_synced(changes)
    assert file.unsynced_changes() is not None, "y is not durable"
    changes = file.unsynced_changes()
    assert changes is not None
    changes.file.fsync()
    file.on_synced(changes)
    assert file.unsynced_changes() is None
    assert file.pread(2, 0) == b"xy"


def test_readers_share_a_bounded_number_of_descriptors(tmp_path: Path) -> None:
    pool: DescriptorPool[File] = DescriptorPool(2)
    disk = OsFileSystem(pool)
    files = [OnDemandFile(disk, write_file(tmp_path, name, name.encode())) for name in "abc"]
    assert [file.pread(1, 0) for file in files] == [b"a", b"b", b"c"]
    assert open_paths(tmp_path) == ["b", "c"]
    assert files[1].pread(1, 0) == b"b"
    assert files[0].pread(1, 0) == b"a"
    assert open_paths(tmp_path) == ["a", "b"], "the one that was read least recently was closed"


def test_a_file_in_use_stays_readable_after_it_is_closed_deleted_and_replaced(tmp_path: Path) -> None:
    file = OnDemandFile(OsFileSystem(), write_file(tmp_path, "a", b"old"))
    held = file.hold()
    file.rename(str(tmp_path / "a.deleted"))
    file.retire(has_path=True)
    file.close()
    (tmp_path / "a.deleted").unlink()
    write_file(tmp_path, "a", b"new")
    assert held.pread(3, 0) == b"old"


def test_a_renamed_file_is_opened_by_its_new_name(tmp_path: Path) -> None:
    file = OnDemandFile(OsFileSystem(), write_file(tmp_path, "a", b"old"))
    file.rename(str(tmp_path / "a.deleted"))
    write_file(tmp_path, "a", b"new")
    assert file.pread(3, 0) == b"old"


def test_the_space_of_a_deleted_file_is_released_at_once(tmp_path: Path) -> None:
    file = OnDemandFile(OsFileSystem(), write_file(tmp_path, "a", b"old"))
    file.pread(1, 0)
    file.rename(str(tmp_path / "a.deleted"))
    file.retire(has_path=True)
    assert file.pread(3, 0) == b"old"
    assert open_paths(tmp_path) == []


def test_a_file_of_a_deleted_partition_is_not_confused_with_its_successor(tmp_path: Path) -> None:
    file = OnDemandFile(OsFileSystem(), write_file(tmp_path, "a", b"old"))
    file.retire(has_path=False)
    write_file(tmp_path, "a", b"new")
    for use in (lambda: file.pread(3, 0), lambda: file.append(b"x"), file.open_for_writing):
        with pytest.raises(FileNotFoundError):
            use()
    assert (tmp_path / "a").read_bytes() == b"new"
