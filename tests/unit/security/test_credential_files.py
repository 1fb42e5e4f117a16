"""Files with credentials are read completely, or rejected with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidelog.security.credential_files import UnsuitableFileError, read_regular_file


def test_a_regular_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "token")
    assert read_regular_file(str(tmp_path / "token"), 5) == b"12345"
    assert read_regular_file(str(tmp_path / "link"), 5) == b"12345"


def test_a_larger_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"123456")
    with pytest.raises(UnsuitableFileError, match="more than 5 bytes"):
        read_regular_file(str(tmp_path / "token"), 5)


def test_a_pipe_is_rejected_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsuitableFileError, match="no regular file"):
        read_regular_file(str(tmp_path / "pipe"), 5)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnsuitableFileError, match="no regular file"):
        read_regular_file(str(tmp_path / "missing"), 5)
