"""A directory and a shell in which the commands of one document run, one after the other."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.support.document_commands import Step, ids
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports
from tidelog.testing.embedded import EmbeddedCluster

TIMEOUT_S: Final = 300
CLUSTER_PORTS: Final = tuple(range(19092, 19098))
"""The first ports of `tidelog cluster start`: three brokers and three controllers."""
_ENDLESS: Final = re.compile(r"tidelog (dev|console)\b")
"""Commands that run until Ctrl-C. They take any free port instead of their usual one."""
_VARIABLES: Final = ".variables"


class DocumentShell:
    """Runs commands as a user does in one terminal: variables that are exported stay for later commands.

    The directory is empty at first. Addresses of documents are replaced by `addresses`. Standard output and
    standard error are one text, as in a terminal.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.addresses: dict[str, str] = {}
        self.stack = ExitStack()
        programs = folder / "programs"
        programs.mkdir()
        script = programs / "tidelog"
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tidelog.cli.main "$@"\n')
        script.chmod(0o755)
        self._variables = folder / _VARIABLES
        self._variables.write_text("")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")},
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            # The order of output and errors is that of a terminal.
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self) -> DocumentShell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def start_cluster(self, **options: Any) -> EmbeddedCluster:
        """Run a cluster until the end of the document; commands use it by default."""
        cluster = self.stack.enter_context(EmbeddedCluster(**options))
        self.export("TIDELOG_BOOTSTRAP", cluster.bootstrap_servers)
        self.addresses["localhost:9092"] = cluster.bootstrap_servers
        return cluster

    def export(self, name: str, value: str) -> None:
        """Set a variable for all later commands."""
        with self._variables.open("a") as variables:
            variables.write(f"export {name}={shlex.quote(value)}\n")

    def use_free_cluster_ports(self) -> None:
        """Replace the ports of `tidelog cluster start`; stop its clusters at the end of the document."""
        first = free_ports(len(CLUSTER_PORTS))[0]
        for index, port in enumerate(CLUSTER_PORTS):
            self.addresses[f"127.0.0.1:{port}"] = f"127.0.0.1:{first + index}"
        self.addresses["tidelog cluster start"] = f"tidelog cluster start -p {first}"
        self.stack.callback(self._stop_clusters)

    def _stop_clusters(self) -> None:
        for cluster in {path.parent.parent for path in self.folder.glob("*/node-*/server.properties")}:
            self.run(f"tidelog cluster stop -d {cluster.name}")

    def run(self, command: str) -> str:
        """Return what a command prints; it must succeed."""
        variables = shlex.quote(str(self._variables))
        script = f". {variables}\n{self._local(command)}\ncode=$?\nexport -p >{variables}\nexit $code\n"
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", script],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{ended.stdout}"
        return ended.stdout

    def _local(self, command: str) -> str:
        """Return a command with the addresses of this run."""
        for documented, real in self.addresses.items():
            command = command.replace(documented, real)
        return command

    def check(self, step: Step) -> None:
        """Run a command of a document, and compare what it prints with what the document shows."""
        if (endless := _ENDLESS.match(step.command)) is not None:
            self._start(step, endless.group())
            return
        printed = self.run(step.command)
        assert step.is_shown(printed), f"{step.command} printed:\n{printed}\nthe document has:\n{step.output}"
        # Later commands have the ids that this run has printed.
        self.addresses.update(zip(ids(step.output), ids(printed), strict=False))

    def _start(self, step: Step, name: str) -> None:
        """Start a command that does not end, wait for its output, and stop it at the end of the document."""
        printed = self.folder.parent / f"printed-{name.split()[-1]}"
        command = self._local(step.command).replace(name, f"{name} --port 0", 1)
        script = f". {shlex.quote(str(self._variables))}\nexec {command}"
        with printed.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.stack.callback(_interrupt, process)

        def is_shown() -> bool:
            assert process.poll() is None, f"{step.command} ended and printed:\n{printed.read_text()}"
            return step.is_shown(printed.read_text())

        try:
            wait_until(is_shown, timeout_s=TIMEOUT_S)
        except AssertionError as error:
            raise AssertionError(f"{step.command} printed:\n{printed.read_text()}") from error
        ready = re.search(r"ready at ([\w.:]+)", printed.read_text())
        # The file for clients of a secured broker has its address.
        if ready is not None and "--secure" not in step.command:
            self.export("TIDELOG_BOOTSTRAP", ready.group(1))


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C, and wait for the end of the command."""
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) in (0, 128 + signal.SIGINT)
