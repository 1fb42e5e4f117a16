"""A broker process that is killed and restarted with the same data and port."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.harness.soak.share_members import BROKER_SETTINGS
from tests.support.paths import ROOT

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    **BROKER_SETTINGS,
    "group.initial.rebalance.delay.ms": "0",
}
_ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")


class UnexpectedExitError(Exception):
    """The broker ended or failed to start without being killed."""


class KillableBroker:
    """`python -m tidelog.broker` with `data_dir`; its log is `broker.log` next to the data."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.log_path = directory / "broker.log"
        self.starts = 0
        self.port = 0
        self.started_at = 0.0
        self._settings = {**SETTINGS, **(settings or {}), "log.dirs": str(directory / "data")}
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Return `host:port`; it is the same for every start."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> float:
        """Start the broker, wait until it accepts connections, and return the duration in seconds."""
        began = time.monotonic()
        values = {**self._settings, "listeners": f"PLAINTEXT://127.0.0.1:{self.port}"}
        command = [sys.executable, "-m", "tidelog.broker"]
        command += [f"--override={key}={value}" for key, value in values.items()]
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        match = _ADDRESS.search(line)
        if match is None:
            raise UnexpectedExitError(f"start {self.starts + 1} printed {line!r}:\n{self.last_lines()}")
        self.port = int(match[1])
        self.starts += 1
        self.started_at = time.monotonic()
        return self.started_at - began

    def kill(self) -> None:
        """Send SIGKILL."""
        process = self._require()
        if process.poll() is not None:
            raise UnexpectedExitError(
                f"the broker ended with the exit code {process.returncode}:\n{self.last_lines()}"
            )
        process.kill()
        self._close(process)

    def stop(self) -> None:
        """Stop the broker, or kill it if it does not stop."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        self._close(process)

    def resident_bytes(self) -> int:
        """Return the resident memory."""
        pages = Path(f"/proc/{self._require().pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    def failures(self) -> list[str]:
        """Return the lines of its log that report unexpected errors."""
        lines = self.log_path.read_text(errors="replace").splitlines()
        return [line[:400] for line in lines if "Traceback" in line or "level=ERROR" in line]

    def last_lines(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-20:])

    def _require(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the broker is not started"
        return self._process

    @staticmethod
    def _close(process: subprocess.Popen[str]) -> None:
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
