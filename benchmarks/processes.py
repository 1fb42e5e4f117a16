"""Servers and loads in separate processes, and their resources as the kernel reports them.

A server prints one line with `host:port` when it accepts connections. A load gets its options as JSON in its
last argument, and prints its results as JSON in its last line.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.reference_software.environment import python_environment

ROOT: Final = Path(__file__).resolve().parent.parent
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0
NANOSECONDS: Final = 1e-9
KIBIBYTE: Final = 1024

_ADDRESS: Final = re.compile(r"([\w.-]+):(\d+)\s*$")

BROKER_SETTINGS: Final = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""A broker as anybody would run it for a benchmark: nothing here makes produce or fetch faster."""


class BenchmarkError(Exception):
    """Raised if a server did not start or a load failed, so that the figures would be wrong."""


class ServerProcess:
    """A server during a `with` block: `python -m module arguments`."""

    def __init__(self, module: str, arguments: Sequence[str] = ()) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._process: subprocess.Popen[str] | None = None
        self.host = ""
        self.port = 0

    @property
    def address(self) -> str:
        """Return `host:port`, which is also valid as bootstrap servers."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None, "the server is not started"
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads so far, in user and kernel mode."""
        return process_cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Return the resident memory."""
        return self._memory("VmRSS")

    def peak_resident_bytes(self) -> int:
        """Return the peak of the resident memory."""
        return self._memory("VmHWM")

    def start(self) -> float:
        """Start the server; return the seconds until it printed its address."""
        started = time.perf_counter()
        # Its log would disturb the progress bar; it is shown if the server does not start.
        with tempfile.TemporaryFile("w+") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=python_environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            found = _ADDRESS.search(line)
            if found is None:
                self.stop()
                log.seek(0)
                command = " ".join(self._command)
                raise BenchmarkError(f"{command} printed {line!r} instead of its address\n{log.read()}")
        self.host, self.port = found[1], int(found[2])
        return time.perf_counter() - started

    def stop(self) -> None:
        """Terminate the server; kill it if it does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _memory(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * KIBIBYTE
        raise BenchmarkError(f"process {self.pid} has no {field}")


class BrokerProcess(ServerProcess):
    """Our broker with an empty data directory, which is removed when it stops."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.data_dir = tempfile.mkdtemp(prefix="tidelog-bench-")
        values = {**BROKER_SETTINGS, "log.dirs": self.data_dir, **(settings or {})}
        overrides = [f"--override={key}={value}" for key, value in values.items()]
        super().__init__("tidelog.broker", ["--log-level=WARNING", *overrides])

    def stop(self) -> None:
        """Stop the broker and remove its data."""
        super().stop()
        shutil.rmtree(self.data_dir, ignore_errors=True)


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU time of all present threads of a process, in user and kernel mode."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    # schedstat counts nanoseconds, stat only ticks of 10 ms.
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) * NANOSECONDS


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, also of ended ones; resolution 10 ms."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in brackets may have blanks.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        child = int(stat.parent.name)
        parents[child] = int(fields[1])
        ticks[child] = sum(map(int, fields[11:15]))
    return sum(count for child, count in ticks.items() if _is_below(child, pid, parents)) / os.sysconf(
        "SC_CLK_TCK"
    )


def _is_below(child: int, pid: int, parents: Mapping[int, int]) -> bool:
    while child not in (pid, 0):
        child = parents.get(child, 0)
    return child == pid


def run_load(module: str, **options: Any) -> dict[str, Any]:
    """Run one load to its end; return its results."""
    command = [sys.executable, "-m", f"benchmarks.loads.{module}", json.dumps(options)]
    done = subprocess.run(
        command, cwd=ROOT, env=python_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise BenchmarkError(f"load {module} ended with code {done.returncode}: {last}; options: {options}")
    findings: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return findings
