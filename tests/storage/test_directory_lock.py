"""One process per log directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.directory_lock import DirectoryLock

HOLD = """
import sys
from storage.directory_lock import DirectoryLock
DirectoryLock(sys.argv[1]).acquire()
"""
ROOT = Path(__file__).parents[2]


def acquire_elsewhere(directory: Path) -> int:
    """Take the lock in another process, which then ends; its exit status."""
    command = [sys.executable, "-c", HOLD, str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False).returncode


def test_a_second_process_is_kept_out_until_the_first_lets_go(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path / "logs"))
    lock.acquire()
    assert acquire_elsewhere(tmp_path / "logs") != 0
    lock.release()
    lock.release()
    assert acquire_elsewhere(tmp_path / "logs") == 0


def test_the_error_names_the_directory(tmp_path: Path) -> None:
    code = HOLD + "print('held', flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(KafkaError, match=f"{tmp_path} is in use by another process") as caught:
            DirectoryLock(str(tmp_path)).acquire()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        holder.kill()
    lock = DirectoryLock(str(tmp_path))
    lock.acquire()
    lock.release()
