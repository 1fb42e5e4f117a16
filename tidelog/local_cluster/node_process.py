"""The process of one node of a local cluster: start, stop, kill, pause, and find it by its pid.

A node continues to run when the command that started it ends; its pid file contains the process id. If the
system has reused the id for another program, the command line of the process shows that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tidelog.base.clock import SYSTEM_CLOCK

POLL_S: Final = 0.02
_PROCESSES: Final = Path("/proc")
"""A folder for each process, on Linux."""


class NodeProcess:
    """A node in its own process: `python -m tidelog.broker`, or another `module`, with a properties file.

    `folder` contains the properties, the pid and the log.
    """

    def __init__(self, folder: Path, module: str = "tidelog.broker") -> None:
        self.folder = folder
        self._module = module
        self.log_path = folder / "node.log"
        self._properties = folder / "server.properties"
        self._pid_path = folder / "pid"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, None if the process does not run."""
        if self._child is not None:
            return self._child.pid if self._child.poll() is None else None
        try:
            pid = int(self._pid_path.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    @property
    def is_running(self) -> bool:
        """Whether the process runs or is paused."""
        return self.pid is not None

    def start(self) -> None:
        """Start the process in a new session, so that it outlives this command; do not wait."""
        if self.is_running:
            return
        with self.log_path.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", self._module, "--config", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._pid_path.write_text(f"{self._child.pid}\n")

    def terminate(self) -> None:
        """Request a clean shutdown; do not wait."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, as after a crash."""
        self._signal(signal.SIGKILL)
        self.wait(10.0)

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended; return False if it runs after `timeout_s`."""
        deadline = SYSTEM_CLOCK.monotonic_s() + timeout_s
        while self.is_running:
            if SYSTEM_CLOCK.monotonic_s() > deadline:
                return False
            time.sleep(POLL_S)
        self._child = None
        self._pid_path.unlink(missing_ok=True)
        return True

    def log_tail(self, lines: int = 3) -> str:
        """Return the last `lines` of the log, for error messages."""
        try:
            text = self.log_path.read_text(errors="replace")
        except FileNotFoundError:
            return "the log is empty"
        return "\n".join(text.strip().splitlines()[-lines:]) or "the log is empty"

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            os.kill(pid, number)

    def _is_ours(self, pid: int) -> bool:
        return str(self._properties) in _command_line(pid)


def _command_line(pid: int) -> str:
    """Return the command line of a process; empty if it does not exist, or has ended and is not awaited."""
    if _PROCESSES.is_dir():
        try:
            return (_PROCESSES / str(pid) / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""
    # Not Linux. Small images of Linux have no `ps`.
    command = ["ps", "-ww", "-o", "stat=,args=", "-p", str(pid)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return "" if output.startswith("Z") else output
