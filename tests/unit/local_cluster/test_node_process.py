"""A node is found by its pid, also where the system has no `ps`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tidelog.local_cluster.node_process import NodeProcess


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program with the arguments of a node, whose pid is in the folder."""
    command = [sys.executable, "-c", "input()", "--config", str(tmp_path / "server.properties")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    (tmp_path / "pid").write_text(str(process.pid))
    yield process
    process.kill()
    process.wait()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="only Linux has /proc")
def test_a_node_is_found_and_killed_without_ps(
    child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    node = NodeProcess(tmp_path)
    wait_until(lambda: node.pid == child.pid)
    node.kill()
    assert not node.is_running
    assert child.wait() == -9


def test_a_process_that_has_the_pid_of_a_node_is_not_killed(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "pid").write_text(str(child.pid))
    node = NodeProcess(other)
    assert node.pid is None
    node.kill()
    assert child.poll() is None
