"""The threads of one simulated process, as scheduled tasks.

A function that is submitted to an executor runs later as one event, outside the loop, in an order that the
seed determines. The number of functions in progress is at most the number of threads of the executor; the
others wait in their order. A function that waits for something, such as an object store, has its effect at
once, and its thread is occupied for the time that it has spent: if the process ends meanwhile, its result is
lost.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, Final

from tidelog.testing.simulation.states import ProcessState

_START_NS_MAX: Final = 200_000
Work = tuple[Callable[[], Any], "SimulatedFuture"]


class SimulatedFuture(Future[Any]):
    """The result of a function that runs later. No thread can wait for it."""

    def result(self, timeout: float | None = None) -> Any:
        """Return the result. Errors: those of the function; RuntimeError if it has not run yet."""
        if not self.done():
            raise RuntimeError("a simulated thread cannot wait for another one")
        return super().result(0)


class SimulatedExecutor(Executor):
    """An executor with a number of threads."""

    def __init__(self, process: ProcessState, threads: int) -> None:
        self._process = process
        self._scheduler = process.machine.scheduler
        self._threads = threads
        self._trace_code = self._scheduler.trace.code(f"thread {process.name}")
        self._waiting: deque[Work] = deque()
        self._started: dict[int, Work] = {}
        self._ending: dict[int, Callable[[], None]] = {}
        """What completes each function that has run, and whose time has not passed yet."""
        self._next = 0

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function later, and return the future of its result."""
        future = SimulatedFuture()
        self._waiting.append((partial(function, *args, **kwargs), future))
        self._start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Run what was submitted now, as a thread that waits does not let time pass for others."""
        if not wait:
            return
        ending, self._ending = self._ending, {}
        for number in sorted(ending):
            ending[number]()
        started, self._started = self._started, {}
        for number in sorted(started):
            self._perform(started[number])()
        while self._waiting:
            self._perform(self._waiting.popleft())()

    def _start(self) -> None:
        while self._waiting and len(self._started) + len(self._ending) < self._threads:
            work = self._waiting.popleft()
            self._next += 1
            delay_ns = self._scheduler.between(1_000, _START_NS_MAX) + self._process.machine.disk_delay_ns()
            self._started[self._next] = work
            self._scheduler.after(delay_ns, partial(self._on_due, self._next))

    def _on_due(self, number: int) -> None:
        process = self._process
        if not process.is_running:
            return
        if process.is_paused:
            process.call_when_resumed(partial(self._on_due, number))
            return
        work = self._started.pop(number, None)
        if work is None:
            return
        process.begin_function()
        complete = self._perform(work)
        if process.spent_ns:
            self._ending[number] = complete
            self._scheduler.after(process.spent_ns, partial(self._on_ended, number))
        else:
            complete()
            self._start()

    def _on_ended(self, number: int) -> None:
        process = self._process
        if not process.is_running:
            return
        if process.is_paused:
            process.call_when_resumed(partial(self._on_ended, number))
            return
        complete = self._ending.pop(number, None)
        if complete is not None:
            complete()
            self._start()

    def _perform(self, work: Work) -> Callable[[], None]:
        """Run a function, and return what completes its future."""
        function, future = work
        if not future.set_running_or_notify_cancel():
            return _do_nothing
        scheduler, process = self._scheduler, self._process
        scheduler.trace.add(self._trace_code)
        outer, scheduler.current = scheduler.current, process.name
        result: Any = None
        failure: BaseException | None = None
        try:
            result = function()
        except BaseException as error:
            failure = error
        scheduler.current = outer
        if not process.check_power():
            return _do_nothing
        if failure is None:
            return partial(future.set_result, result)
        return partial(future.set_exception, failure)


class SimulatedCallThreads:
    """The threads of a pool that limits the calls in progress itself. The port `CallThreads`."""

    def __init__(self, process: ProcessState) -> None:
        self._executor = SimulatedExecutor(process, sys.maxsize)

    def submit(self, function: Callable[[], Any], thread_count: int) -> Future[Any]:
        """Run `function` later, and return the future of its result."""
        return self._executor.submit(function)

    def keep(self, thread_count: int) -> None:
        """Do nothing: idle threads do not exist."""


class SimulatedThreads:
    """Starts the threads of one process. The port `Threads`."""

    def __init__(self, process: ProcessState) -> None:
        self._process = process

    def executor(self, thread_count: int, name: str) -> SimulatedExecutor:
        """Return an executor with a number of threads."""
        return SimulatedExecutor(self._process, thread_count)

    def call_threads(self, name: str) -> SimulatedCallThreads:
        """Return the threads of a pool."""
        return SimulatedCallThreads(self._process)


def _do_nothing() -> None:
    pass
