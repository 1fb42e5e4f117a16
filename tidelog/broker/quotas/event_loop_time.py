"""Measures how long the work of one request runs on the event loop, without the time in which it waits.

I/O: none; the clock is passed in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar, cast

from tidelog.protocol.steps import Steps

T = TypeVar("T")


def measured_steps(steps: Steps[T], now_ns: Callable[[], int], record: Callable[[int], None]) -> Steps[T]:
    """Return the same steps; pass the nanoseconds of each to `record`."""
    sent: Any = None
    error: Exception | None = None
    try:
        while True:
            began_ns = now_ns()
            try:
                step = steps.send(sent) if error is None else steps.throw(error)
            except StopIteration as end:
                return cast(T, end.value)
            finally:
                record(now_ns() - began_ns)
            sent, error = None, None
            try:
                sent = yield step
            except Exception as raised:
                error = raised
    finally:
        steps.close()


class EventLoopTime:
    """The time of one request. Steps that a measured coroutine runs at once are counted once."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.elapsed_ns = 0
        self._now_ns = now_ns
        self._is_in_coroutine = False

    def of_steps(self, steps: Steps[T]) -> Steps[T]:
        """Return the same steps, with their time counted."""
        return measured_steps(steps, self._now_ns, self._record_step)

    def of_coroutine(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return an awaitable that runs `coroutine`, with its time counted."""
        return _MeasuredCoroutine(coroutine, self)

    def run_to_next_wait(self, run: Callable[[], Any]) -> Any:
        """Call `run`, which continues a coroutine, and count its time."""
        began_ns, self._is_in_coroutine = self._now_ns(), True
        try:
            return run()
        finally:
            del run  # It may refer to an error, whose traceback refers to this frame: a reference cycle.
            self._is_in_coroutine = False
            self.elapsed_ns += self._now_ns() - began_ns

    def _record_step(self, elapsed_ns: int) -> None:
        if not self._is_in_coroutine:
            self.elapsed_ns += elapsed_ns


class _MeasuredCoroutine(Awaitable[T]):
    """Runs a coroutine; passes what it waits for to the event loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], time: EventLoopTime) -> None:
        self._coroutine = coroutine
        self._time = time

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine, run = self._coroutine, self._time.run_to_next_wait
        error: BaseException | None = None
        while True:
            try:
                if error is None:
                    waiting = run(partial(coroutine.send, None))
                else:
                    waiting = run(partial(coroutine.throw, error))
            except StopIteration as end:
                return cast(T, end.value)
            finally:
                error = None
            try:
                yield waiting
            except BaseException as raised:
                error = raised
            finally:
                del waiting
