"""Locks of log directories: all or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.broker.logs.directory_locks import DirectoryLocks
from tidelog.storage.disk.files import OsFileSystem


@pytest.mark.parametrize("reason", ["held", "missing"])
def test_a_lock_that_fails_releases_those_that_were_taken(tmp_path: Path, reason: str) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    fs = OsFileSystem()
    if reason == "held":
        second.mkdir()
        held = DirectoryLocks(fs, [str(second)])
    with pytest.raises(ConfigError if reason == "held" else FileNotFoundError):
        DirectoryLocks(fs, [str(first), str(second)])
    DirectoryLocks(fs, [str(first)]).release()
    if reason == "held":
        held.release()
