"""A cleaner worker in a thread of the test, for file systems that only this process has."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import BytesIO
from threading import Event

from tidelog.base.clock import SystemClock
from tidelog.broker.logs.cleaning.messages import (
    CleaningLimits,
    Message,
    error_of,
    receive,
    round_messages,
    send,
)
from tidelog.broker.logs.cleaning.worker import Abandoned, CleaningSession
from tidelog.broker.logs.cleaning.worker_process import FilledMap, WorkerDied, WrittenBytes
from tidelog.storage.compaction.task import CleaningTask
from tidelog.storage.disk.files import FileSystem


class ThreadWorker:
    """Executes the rounds in the calling thread; every message is encoded and decoded.

    `on_request` is called with the kind of each request before its execution.
    """

    def __init__(self, fs: FileSystem, on_request: Callable[[str], None] = lambda kind: None) -> None:
        self._killed = Event()
        self._on_request = on_request
        self._session = CleaningSession(
            fs, SystemClock(), random.Random(1), self._is_abandoned, lambda work: work
        )
        self.is_closed = False

    def _is_abandoned(self, timeout_ms: int) -> bool:
        return self._killed.wait(timeout_ms / 1000)

    def fill(self, task: CleaningTask, limits: CleaningLimits) -> FilledMap:
        for message in round_messages(task, limits):
            self._session.handle(_transfer(message))
        return FilledMap(*self._request(["fill"]))

    def clean(self, first: int, end: int) -> WrittenBytes:
        return WrittenBytes(*self._request(["clean", first, end]))

    def sync(self) -> None:
        self._request(["sync"])

    def end_round(self) -> None:
        self._session.handle(_transfer(["end"]))

    def _request(self, message: Message) -> Message:
        self._on_request(message[0])
        if self._killed.is_set():
            raise WorkerDied("killed")
        try:
            reply = self._session.handle(_transfer(message))
        except Abandoned:
            raise WorkerDied("killed") from None
        assert reply is not None
        reply = _transfer(reply)
        if reply[0] == "failed":
            raise error_of(reply)
        return reply[1:]

    def kill(self) -> None:
        self._killed.set()

    def close(self) -> None:
        self._killed.set()
        self.is_closed = True


def _transfer(message: Message) -> Message:
    pipe = BytesIO()
    send(pipe, message)
    pipe.seek(0)
    received = receive(pipe)
    assert received is not None
    return received
