"""A worker of the log cleaner in the process of a simulated node.

In production a worker is a process (`tidelog.broker.logs.cleaning.worker_process`). This one executes the
same session. Its messages pass through their encoding. It reads and writes the simulated disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness
from tidelog.broker.logs.cleaning.messages import CleaningLimits, Message, error_of, round_messages
from tidelog.broker.logs.cleaning.worker import CleaningSession
from tidelog.broker.logs.cleaning.worker_process import FilledMap, WorkerDied, WrittenBytes
from tidelog.storage.compaction.task import CleaningTask
from tidelog.storage.disk.files import FileSystem


class SimulatedCleaningWorker:
    """Implements `CleaningWorker`; a call is one scheduled task of the node."""

    def __init__(self, fs: FileSystem, clock: Clock, randomness: Randomness) -> None:
        self.is_running = True
        self._session = CleaningSession(fs, clock, randomness, lambda timeout_ms: False, lambda work: work)

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
        self._session.handle(["end"])

    def kill(self) -> None:
        """End the worker: the next call raises WorkerDied."""
        self.is_running = False

    def close(self) -> None:
        """End the worker."""
        self.is_running = False

    def _request(self, messages: Iterable[Message]) -> Message:
        reply: Message | None = None
        for message in messages:
            if not self.is_running:
                raise WorkerDied("the simulated worker was killed")
            reply = self._session.handle(json.loads(json.dumps(message)))
        assert reply is not None, "the last message has a reply"
        received: Message = json.loads(json.dumps(reply))
        if received[0] == "failed":
            raise error_of(received)
        return received[1:]
