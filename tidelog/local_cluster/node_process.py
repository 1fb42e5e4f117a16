"""One node of a local cluster as a process: started, stopped, killed, paused, and found again by its pid.

A node outlives the command that started it; its pid file says which process it is. A pid that was
given to another program since is told apart by the command line that the system shows for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

POLL_S: Final = 0.02


class NodeProcess:
    """A node in its own process: `python -m tidelog.broker`, or another `module`, on a properties file.

    `folder` keeps its pid and its log.
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
        """The process, None when it does not run."""
        if self._child is not None:
            return self._child.pid if self._child.poll() is None else None
        try:
            pid = int(self._pid_path.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    @property
    def is_running(self) -> bool:
        """Whether the process is there, paused or not."""
        return self.pid is not None

    def start(self) -> None:
        """Start it, in a session of its own: it shall outlive the terminal's command. Does not wait."""
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
        """Ask for a clean shutdown; does not wait."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._signal(signal.SIGKILL)
        self.wait(10.0)

    def pause(self) -> None:
        """Freeze it (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen one go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; False when it has not in time."""
        deadline = time.monotonic() + timeout_s
        while self.is_running:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        self._child = None
        self._pid_path.unlink(missing_ok=True)
        return True

    def last_words(self, lines: int = 3) -> str:
        """The end of its log, for whoever has to say why it is gone."""
        try:
            text = self.log_path.read_text(errors="replace")
        except FileNotFoundError:
            return "it logged nothing"
        return "\n".join(text.strip().splitlines()[-lines:]) or "it logged nothing"

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            os.kill(pid, number)

    def _is_ours(self, pid: int) -> bool:
        shown = subprocess.run(
            ["ps", "-ww", "-o", "stat=,args=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
        return str(self._properties) in shown and not shown.startswith("Z")
