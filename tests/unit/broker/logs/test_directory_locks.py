"""One broker process per log directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tidelog.base.config_definition import ConfigError
from tidelog.broker.logs.directory_locks import DirectoryLocks
from tidelog.storage.disk.os_files import OsFileSystem

# What Java's FileLock does, and so Apache Kafka: a record lock on the whole file.
HOLD_AS_JAVA = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
TRY = """
import sys
from tidelog.broker.logs.directory_locks import DirectoryLocks
from tidelog.storage.disk.os_files import OsFileSystem
DirectoryLocks(OsFileSystem(), [sys.argv[1]])
"""


def exit_code_elsewhere(directory: Path) -> int:
    command = [sys.executable, "-c", TRY, str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False).returncode


def test_a_second_broker_cannot_lock_any_directory_until_the_first_releases_them(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    locks = DirectoryLocks(OsFileSystem(), [str(one), str(two)])
    assert exit_code_elsewhere(two) != 0
    with pytest.raises(ConfigError, match=f"log.dirs={two}; another broker"):
        DirectoryLocks(OsFileSystem(), [str(two)])
    locks.release()
    locks.release()
    assert exit_code_elsewhere(two) == 0


def test_locks_are_released_when_one_directory_is_not_free(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    holder = DirectoryLocks(OsFileSystem(), [str(two)])
    with pytest.raises(ConfigError):
        DirectoryLocks(OsFileSystem(), [str(one), str(two)])
    DirectoryLocks(OsFileSystem(), [str(one)]).release()
    holder.release()


def test_locks_are_released_when_one_directory_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectoryLocks(OsFileSystem(), [str(tmp_path), str(tmp_path / "missing")])
    DirectoryLocks(OsFileSystem(), [str(tmp_path)]).release()


def test_a_directory_locked_by_kafka_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD_AS_JAVA, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdout is not None
        assert java.stdout.readline() == "held\n"
        with pytest.raises(ConfigError):
            DirectoryLocks(OsFileSystem(), [str(tmp_path)])
        java.kill()
