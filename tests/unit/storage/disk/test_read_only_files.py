"""Files opened for reading only."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tidelog.storage.disk.read_only_files import ReadOnlyFileSystem


def test_reading_ends_at_the_file_size_at_opening(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    file = ReadOnlyFileSystem().open(str(path), create=False)
    with path.open("ab") as writer:
        writer.write(b"later")
    assert file.size() == 10
    assert file.pread(4, 2) == b"2345"
    assert file.pread(100, 8) == b"89"
    assert file.pread(1, 10) == b""
    file.close()
    file.close()


def test_writing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    fs = ReadOnlyFileSystem()
    file = fs.open(str(path), create=False)
    for change in (
        lambda: file.append(b"x"),
        lambda: file.pwrite(b"x", 0),
        lambda: file.truncate(0),
        lambda: file.fsync(),
        lambda: fs.open(str(tmp_path / "new"), create=True),
    ):
        with pytest.raises(io.UnsupportedOperation):
            change()
    file.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
    assert path.read_bytes() == b"0123456789"


def test_a_file_without_write_permission_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"sealed")
    path.chmod(0o444)
    file = ReadOnlyFileSystem().open(str(path), create=False)
    assert file.pread(6, 0) == b"sealed"
    file.close()
