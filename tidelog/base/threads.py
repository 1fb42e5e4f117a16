"""The threads of a process: the port through which its parts start them, and threads of the operating system.

Executors have a fixed number of threads. Call threads are those of a pool whose size changes; they are daemon
threads: a call without a timeout that hangs does not keep the process from ending.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, Protocol

_log = logging.getLogger(__name__)

_STARTER: Final = ThreadPoolExecutor(1, "thread-starter")
"""Starts all call threads.

`Thread.start` waits until the new thread runs, which takes up to tens of milliseconds on a busy machine.
"""


class CallThreads(Protocol):
    """The threads of one pool, which limits the calls in progress itself."""

    def submit(self, function: Callable[[], Any], thread_count: int) -> Future[Any]:
        """Run `function` in one of at least `thread_count` threads, and return the future of its result."""
        ...

    def keep(self, thread_count: int) -> None:
        """End idle threads until there are at most `thread_count`."""
        ...


class Threads(Protocol):
    """Starts threads. Simulations run their work as scheduled tasks."""

    def executor(self, thread_count: int, name: str) -> Executor:
        """Return an executor with a number of threads; `name` is the prefix of their names."""
        ...

    def call_threads(self, name: str) -> CallThreads:
        """Return the threads of a pool; `name` is the prefix of their names."""
        ...


class SystemThreads:
    """Threads of the operating system."""

    def executor(self, thread_count: int, name: str) -> Executor:
        """Return an executor with a number of threads; `name` is the prefix of their names."""
        return ThreadPoolExecutor(thread_count, thread_name_prefix=name)

    def call_threads(self, name: str) -> CallThreads:
        """Return the threads of a pool; `name` is the prefix of their names."""
        return DaemonThreads(name)


SYSTEM_THREADS: Final = SystemThreads()


class _Call(NamedTuple):
    function: Callable[[], Any]
    future: Future[Any]


class DaemonThreads:
    """Call threads that are started when they are needed, and are then kept. Used from one thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._count = 0
        self._started_count = 0

    def submit(self, function: Callable[[], Any], thread_count: int) -> Future[Any]:
        """Run `function` in one of at least `thread_count` threads, and return the future of its result."""
        while self._count < thread_count:
            self._start_thread()
        future: Future[Any] = Future()
        self._calls.put(_Call(function, future))
        return future

    def keep(self, thread_count: int) -> None:
        """End idle threads until there are at most `thread_count`."""
        while self._count > thread_count:
            self._count -= 1
            self._calls.put(None)

    def _start_thread(self) -> None:
        self._count += 1
        self._started_count += 1
        thread = threading.Thread(
            target=_run_calls, args=(self._calls,), name=f"{self._name}-{self._started_count}", daemon=True
        )
        _STARTER.submit(_start, thread)


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        _log.error(
            "Cannot start thread %s; the other threads of the pool run its calls: %s", thread.name, error
        )


def _run_calls(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        try:
            result = call.function()
        except BaseException as error:
            call.future.set_exception(error)
        else:
            call.future.set_result(result)
            del result
        del call
