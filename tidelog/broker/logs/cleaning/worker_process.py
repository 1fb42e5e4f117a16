"""The node's side of a cleaner worker: a child process, and a pipe in each direction.

Every method may block, so it is called in a thread; `kill` may be called in any thread, and ends a call that
is in progress.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.broker.logs.cleaning.messages import (
    CleaningLimits,
    Message,
    error_of,
    receive,
    round_messages,
    send,
)
from tidelog.protocol.ids import Offset
from tidelog.storage.compaction.task import CleaningTask

_PACKAGE_FOLDER: Final = Path(__file__).parents[4]
_MODULE: Final = "tidelog.broker.logs.cleaning.worker"


class WorkerDied(Exception):
    """The worker process ended during a round, or did not start."""


class FilledMap(NamedTuple):
    """The offset map of a round: how far its keys fit, and its used share."""

    end_offset: Offset
    utilization: float


class WrittenBytes(NamedTuple):
    """The bytes of a round so far."""

    bytes_read: int
    bytes_written: int


class CleaningWorker(Protocol):
    """Executes rounds, one at a time. Errors of requests: WorkerDied, and those of the cleaning."""

    def fill(self, task: CleaningTask, limits: CleaningLimits) -> FilledMap:
        """Begin a round and fill its offset map."""
        ...

    def clean(self, first: int, end: int) -> WrittenBytes:
        """Write the `.cleaned` files of the sources from number `first` to `end` (exclusive).

        The files of the call before are durable when this returns.
        """
        ...

    def sync(self) -> None:
        """Make the files of the last `clean` durable."""
        ...

    def end_round(self) -> None:
        """Release the memory of the round."""
        ...

    def kill(self) -> None:
        """End the worker at once; a call in progress raises WorkerDied."""
        ...

    def close(self) -> None:
        """End the worker, and wait until its process has ended."""
        ...


StartWorker: TypeAlias = Callable[[], CleaningWorker]


class WorkerProcess:
    """A worker in its own process. Errors of the constructor: WorkerDied."""

    def __init__(self) -> None:
        # The worker imports this package from the same path as the node, and computes in one thread.
        path = [str(_PACKAGE_FOLDER), os.environ.get("PYTHONPATH")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        try:
            self._child = subprocess.Popen(
                # -P: modules in the working directory of the node are not imported.
                [sys.executable, "-P", "-m", _MODULE, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            raise WorkerDied(f"the process could not be started: {error}") from error
        assert self._child.stdin is not None and self._child.stdout is not None
        self._requests, self._replies = self._child.stdin, self._child.stdout

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def fill(self, task: CleaningTask, limits: CleaningLimits) -> FilledMap:
        """Begin a round and fill its offset map."""
        return FilledMap(*self._request([*round_messages(task, limits), ["fill"]]))

    def clean(self, first: int, end: int) -> WrittenBytes:
        """Write the `.cleaned` files of the sources from number `first` to `end` (exclusive)."""
        return WrittenBytes(*self._request([["clean", first, end]]))

    def sync(self) -> None:
        """Make the files of the last `clean` durable."""
        self._request([["sync"]])

    def end_round(self) -> None:
        """Release the memory of the round."""
        with suppress(OSError):  # the next request reports the death of the worker
            send(self._requests, ["end"])

    def _request(self, messages: Sequence[Message]) -> Message:
        try:
            for message in messages:
                send(self._requests, message)
            reply = receive(self._replies)
        except OSError:
            reply = None
        if reply is None:
            raise WorkerDied(f"process {self.pid} ended with code {self._child.wait()}")
        if reply[0] == "failed":
            raise error_of(reply)
        return reply[1:]

    def kill(self) -> None:
        """End the worker at once; a call in progress raises WorkerDied."""
        self._child.kill()

    def close(self) -> None:
        """End the worker, and wait until its process has ended."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._requests, self._replies):
            with suppress(OSError):  # what was not written before the end
                pipe.close()
