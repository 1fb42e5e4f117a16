"""A broker in a process of its own, which can be stopped, killed and started again on its data."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 20.0


class BrokerProcess:
    """`python -m broker` on one port of the loopback address and one folder."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.port = _free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> float:
        """Start and wait until it is ready; the seconds that took. RuntimeError when it does not come up."""
        overrides = {
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "1000",
        }
        command = [sys.executable, "-m", "broker"]
        for key, value in overrides.items():
            command += ["--override", f"{key}={value}"]
        started = time.perf_counter()
        log = (self.data_dir.parent / "broker.log").open("a")
        with log:
            # In a process group of its own: a ctrl-C at the terminal is for the demo, whose clients
            # could not leave their groups if it ended the broker, too.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
            )
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        line = self._process.stdout.readline() if readable else ""
        if "is ready" not in line:
            self.kill()
            # The folder goes with the demo, so what the broker said has to be told now.
            said = Path(log.name).read_text(errors="replace").strip().splitlines()
            raise RuntimeError("the broker did not start: " + (said[-1] if said else "it said nothing"))
        return time.perf_counter() - started

    def stop(self) -> None:
        """Ask for a clean shutdown and wait for it; RuntimeError when it fails."""
        code = self._end(signal.SIGTERM)
        if code != 0:
            raise RuntimeError(f"the broker's clean shutdown ended with exit code {code}")

    def kill(self) -> None:
        """End it at once with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
