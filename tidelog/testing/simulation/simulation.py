"""One simulation: a cluster and its clients in virtual time, from one seed.

    with Simulation(seed=7) as simulation:
        client = simulation.cluster.client("shop")
        simulation.run(client, sell(client))

Inside the block, code that uses the system's clock, files, sockets, threads or random numbers fails. Clients
get these from `client.environment`. The garbage collector runs only between events, so that a seed always
gives the same run.
"""

from __future__ import annotations

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, TypeVar

from tidelog.testing.simulation.cluster import SimulatedCluster
from tidelog.testing.simulation.guard import Guard
from tidelog.testing.simulation.log_lines import LogLines
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.scheduler import SECOND, Scheduler

ResultT = TypeVar("ResultT")
_EVENTS_BETWEEN_COLLECTIONS: Final = 200_000


class SimulationFailure(AssertionError):
    """Something happened that must not happen; the message begins with the seed."""


class Simulation:
    """A context manager: the cluster exists within the block; `trace` remains after it."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        config: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        voters_may_change: bool = False,
    ) -> None:
        self.scheduler = Scheduler(seed)
        self.trace = self.scheduler.trace
        self.cluster = SimulatedCluster(
            self.scheduler, nodes, config, features=features, voters_may_change=voters_may_change
        )
        self._guard = Guard(lambda: self.scheduler.now_ns)
        self._log_lines = LogLines(self.scheduler)
        self._stack = ExitStack()
        self._next_collection = _EVENTS_BETWEEN_COLLECTIONS
        """The number of events at which the garbage collector runs."""

    def __enter__(self) -> Simulation:
        # Objects from outside, and their garbage, are not collected while the simulation runs.
        gc.freeze()
        gc.disable()
        self._stack.enter_context(self._log_lines.collected())
        self._stack.enter_context(self._guard.active())
        try:
            self.cluster.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._stack.close()
        self._release()
        gc.unfreeze()
        gc.enable()

    @property
    def now_s(self) -> float:
        """The virtual time in seconds."""
        return self.scheduler.now_ns / SECOND

    def run(self, process: Process, work: Coroutine[Any, Any, ResultT], timeout_s: float = 300.0) -> ResultT:
        """Run a coroutine in a process to its end, and return its result.

        Errors: those of the coroutine; SimulationFailure if it does not end within `timeout_s` of virtual
        time, or for the reasons in `check`.
        """
        task = process.start(work)
        if not self.run_until(task.done, timeout_s):
            raise self.failure(f"{process.name} has not finished after {timeout_s:g} s")
        result: ResultT = task.result()
        return result

    def run_for(self, duration_s: float) -> None:
        """Let time pass. Errors: SimulationFailure; see `check`."""
        self.run_until(_never, duration_s)

    def run_until(self, is_done: Callable[[], bool], timeout_s: float, *, every_s: float = 0.0) -> bool:
        """Let time pass until `is_done`; return False if it is not after `timeout_s`. Errors: see `check`.

        `is_done` is called before each event, or, if it is slow, once in `every_s`.
        """
        end_ns = self.scheduler.now_ns + int(timeout_s * SECOND)
        if not every_s:
            return self._run_until(is_done, end_ns)
        while not is_done():
            if self.scheduler.now_ns >= end_ns:
                return False
            self._run_until(_never, min(end_ns, self.scheduler.now_ns + int(every_s * SECOND)))
        return True

    def _run_until(self, is_done: Callable[[], bool], deadline_ns: int) -> bool:
        scheduler = self.scheduler
        while True:
            done = scheduler.run_until(is_done, deadline_ns, _EVENTS_BETWEEN_COLLECTIONS)
            self.check()
            if scheduler.event_count >= self._next_collection:
                self._next_collection = scheduler.event_count + _EVENTS_BETWEEN_COLLECTIONS
                gc.collect()
            if done is not None:
                return done

    def check(self) -> None:
        """Raise SimulationFailure after an unhandled error of a process, or a use of the machine."""
        if self._guard.found:
            raise self.failure("the machine was used directly: " + self._guard.found[0])
        for process in self.cluster.processes:
            for context in process.loop.failures:
                raise self.failure(f"an unhandled error in {process.name}: {context}") from context.get(
                    "exception"
                )
        if self._log_lines.errors:
            raise self.failure(f"an unexpected error was logged: {self._log_lines.errors[0]}")

    def failure(self, text: str) -> SimulationFailure:
        """Return an error with the seed and the virtual time."""
        return SimulationFailure(f"seed {self.scheduler.seed}, after {self.now_s:.3f} s: {text}")

    def _release(self) -> None:
        """Close all coroutines. Their `finally` blocks run now, and have no effect."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                # Coroutines that were never awaited are expected here.
                warnings.simplefilter("ignore", RuntimeWarning)
                for process in self.cluster.processes:
                    process.end()
                for process in self.cluster.processes:
                    process.loop.close_coroutines()
                self.cluster.release()
                self.scheduler.clear()
                gc.collect()
        finally:
            logging.disable(logging.NOTSET)
            sys.unraisablehook = hook


def _never() -> bool:
    return False
