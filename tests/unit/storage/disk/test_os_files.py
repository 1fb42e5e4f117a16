"""The files of the operating system, and its errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import tidelog.storage.disk.os_files
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.os_files import OsFileSystem

FS = OsFileSystem()


def fail(error: int) -> Any:
    def refuse(*_: Any) -> Any:
        raise OSError(error, os.strerror(error))

    return refuse


def test_appends_reads_overwrites_and_truncations_in_sequence(tmp_path: Path) -> None:
    file = FS.open(f"{tmp_path}/a", create=True)
    file.append(b"hello ")
    file.append(memoryview(b"world"))
    file.append(bytearray(b"!"))
    assert (file.size(), file.pread(100, 6), file.pread(2, 0), file.pread(5, 12)) == (
        12,
        b"world!",
        b"he",
        b"",
    )
    file.truncate(8)
    file.truncate(100)
    file.append(b"men")
    file.pwrite(b"H", 0)
    file.fsync()
    file.close()
    file.close()
    again = FS.open(f"{tmp_path}/a", create=False)
    assert (again.size(), FS.read(f"{tmp_path}/a"), FS.size(f"{tmp_path}/a")) == (11, b"Hello women", 11)
    again.pwrite(b"folk", 9)
    assert (again.size(), again.pread(20, 0)) == (13, b"Hello womfolk")
    assert os.fstat(again.fileno()).st_size == 13
    again.close()


def test_a_missing_file_is_created_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FS.open(f"{tmp_path}/missing", create=False)
    assert not FS.exists(f"{tmp_path}/missing")


def test_directories_are_created_listed_renamed_and_removed(tmp_path: Path) -> None:
    root = str(tmp_path)
    FS.makedirs(f"{root}/t-0/inner")
    FS.makedirs(f"{root}/t-0/inner")
    FS.open(f"{root}/t-0/b", create=True).close()
    FS.open(f"{root}/t-0/a", create=True).close()
    assert FS.listdir(f"{root}/t-0") == ["a", "b", "inner"]
    FS.rename(f"{root}/t-0", f"{root}/t-0.gone")
    FS.fsync_dir(root)
    FS.unlink(f"{root}/t-0.gone/a")
    assert FS.is_dir(f"{root}/t-0.gone") and not FS.is_dir(f"{root}/t-0.gone/b")
    FS.rmtree(f"{root}/t-0.gone")
    assert FS.listdir(root) == []
    assert 0 < FS.space(root).usable_bytes <= FS.space(root).total_bytes


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data[:3]), at))
    file = FS.open(f"{tmp_path}/a", create=True)
    file.append(b"0123456789")
    assert file.pread(20, 0) == b"0123456789"


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FS.open(f"{tmp_path}/a", create=True)
    file.append(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: real(fd, min(length, 3), at))
    assert file.pread(8, 1) == b"12345678"
    assert file.pread(100, 1) == b"123456789"


def test_a_partial_append_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FS.open(f"{tmp_path}/a", create=True)
    file.append(b"whole")
    real = os.pwrite

    def write_until_full(fd: int, data: bytes, at: int) -> int:
        if at >= 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, bytes(data[: 8 - at]), at)

    monkeypatch.setattr(os, "pwrite", write_until_full)
    with pytest.raises(OSError) as failure:
        file.append(b"torn record")
    assert failure.value.errno == errno.ENOSPC
    assert (file.size(), FS.read(f"{tmp_path}/a")) == (5, b"whole")
    monkeypatch.setattr(os, "pwrite", real)
    file.append(b" again")
    assert FS.read(f"{tmp_path}/a") == b"whole again"


def test_a_partial_append_that_cannot_be_truncated_closes_the_file_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FS.open(f"{tmp_path}/a", create=True)
    file.append(b"whole")
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", fail(errno.EIO))
        broken.setattr(os, "ftruncate", fail(errno.EIO))
        with pytest.raises(StorageFailure, match="/a failed"):
            file.append(b"torn record")
    for attempt in (lambda: file.append(b"x"), lambda: file.truncate(0), file.fsync):
        with pytest.raises(StorageFailure):
            attempt()
    assert file.pread(5, 0) == b"whole"


def test_fsyncgate_a_failed_fsync_is_never_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fail_once(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(tidelog.storage.disk.os_files, "_sync_data", fail_once)
    file = FS.open(f"{tmp_path}/a", create=True)
    file.append(b"x")
    with pytest.raises(StorageFailure, match=r"fsync of .*/a failed: Input/output error") as failure:
        file.fsync()
    assert (failure.value.path, failure.value.code) == (f"{tmp_path}/a", ErrorCode.KAFKA_STORAGE_ERROR)
    for attempt in (file.fsync, lambda: file.append(b"y"), lambda: file.pwrite(b"y", 0)):
        with pytest.raises(StorageFailure, match="/a"):
            attempt()
    assert len(calls) == 1, "a second fsync would report success for lost data"


def test_syncing_a_closed_file_is_a_bug_and_not_a_disk_failure(tmp_path: Path) -> None:
    file = FS.open(f"{tmp_path}/a", create=True)
    file.close()
    with pytest.raises(AssertionError, match="/a is closed"):
        file.fsync()


def test_metadata_is_synced_after_a_truncation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(tidelog.storage.disk.os_files, "_sync_data", lambda descriptor: synced.append("data"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append("all"))
    file = FS.open(f"{tmp_path}/a", create=True)
    file.append(b"1234")
    file.fsync()
    file.truncate(2)
    file.fsync()
    file.append(b"5")
    file.fsync()
    assert synced == ["data", "all", "data"]


def test_a_failed_directory_sync_is_a_storage_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    with pytest.raises(StorageFailure, match=str(tmp_path)):
        FS.fsync_dir(str(tmp_path))
