"""Streaming queries in separate processes that are ended by SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.paths import ROOT
from tests.support.spark.streams import QUERY_TIMEOUT_S
from tests.support.waiting import wait_until


def run_until_killed(servers: str, folder: Path, **options: str) -> int:
    """Start a query in a process and kill it while it runs; return the number of committed micro-batches.

    `folder` and `options` are those of `Stream`.
    """
    committed = folder / "checkpoint" / "commits"
    with _query_process(servers, folder, **options) as process:

        def has_begun() -> bool:
            assert process.poll() is None, (folder / "query.log").read_text()[-2000:]
            return (committed / "1").exists()

        wait_until(has_begun, timeout_s=QUERY_TIMEOUT_S)
    return 1 + max(int(path.name) for path in committed.glob("[0-9]*"))


@contextmanager
def _query_process(servers: str, folder: Path, **options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a query in a process that is ended by SIGKILL together with its JVM."""
    command = [sys.executable, "-m", "tests.support.spark.streaming_query", servers, str(folder)]
    command += [f"{name}={value}" for name, value in options.items()]
    # A killed JVM leaves its temporary files. Sockets are among them, so the name must be short.
    with TemporaryDirectory(prefix="query-", ignore_cleanup_errors=True) as scratch:
        environment = {**os.environ, "TMPDIR": scratch, "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={scratch}"}
        with (folder / "query.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
