"""Delayed deletion of files."""

from __future__ import annotations

from tidelog.storage.disk.deleted_files import DeletedFiles
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def test_files_and_directories_are_deleted_in_order_after_their_delay() -> None:
    disk = CrashFileSystem()
    disk.makedirs("/old")
    disk.open("/old/file", create=True)
    disk.open("/a.deleted", create=True)
    waiting = DeletedFiles()
    waiting.add(["/a.deleted"], 100)
    waiting.add(["/old"], 50)
    assert len(waiting) == 2
    assert waiting.remove_due(disk, 99) == 0
    assert waiting.remove_due(disk, 100) == 2
    assert disk.listdir("/") == []
    assert len(waiting) == 0


def test_missing_files_are_skipped() -> None:
    waiting = DeletedFiles()
    waiting.add(["/nothing"], 1)
    assert waiting.remove_due(CrashFileSystem(), 1) == 0
    assert len(waiting) == 0
