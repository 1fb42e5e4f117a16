"""Bounded pools of threads for blocking calls, such as those of a storage manager.

The event loop counts running and waiting calls; threads only run calls and return their results. Therefore
a pool can be made smaller while its threads are busy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from tidelog.base.dataclass import dataclass
from tidelog.base.threads import SYSTEM_THREADS, Threads

P = ParamSpec("P")
T = TypeVar("T")


class PoolFull(Exception):
    """The maximum number of calls is waiting for a thread."""


class PoolClosed(Exception):
    """The pool accepts no more calls."""


@dataclass(slots=True, eq=False)
class _Call:
    function: Callable[[], Any]
    outcome: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class BoundedPool:
    """Runs calls in at most `threads` threads, in the order in which they were submitted.

    Bounds: at most `max_pending` calls wait for a thread; None if the callers have a limit of their own.
    Threads are created when they are needed, and are then kept.
    I/O: none of its own. Used from one event loop only.
    """

    def __init__(
        self, name: str, threads: int, max_pending: int | None = None, *, starter: Threads = SYSTEM_THREADS
    ) -> None:
        assert threads >= 1, f"pool {name} of {threads} threads"
        self.name = name
        self._threads = starter.call_threads(name)
        self._limit = threads
        self._max_pending = max_pending
        self._waiting: deque[_Call] = deque()
        self._busy = 0
        self._is_closed = False

    @property
    def threads(self) -> int:
        """The maximum number of threads."""
        return self._limit

    @property
    def pending(self) -> int:
        """The number of calls that wait for a thread."""
        return len(self._waiting)

    @property
    def idle_share(self) -> float:
        """The share of idle threads from 0 to 1, like Kafka's ...AvgIdlePercent."""
        return max(0.0, 1.0 - self._busy / self._limit)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(*args, **kwargs)` in a thread and return its result.

        A call that is cancelled while it waits does not run. A call that is cancelled while it runs continues
        to its end and occupies the thread until then; its result is dropped.
        Errors: those of `function`; PoolFull; PoolClosed.
        """
        if self._is_closed:
            raise PoolClosed(self.name)
        if self._busy >= self._limit and self._max_pending is not None:
            self._waiting = deque(call for call in self._waiting if not call.outcome.done())
            if len(self._waiting) >= self._max_pending:
                raise PoolFull(f"{self.name}: {self._max_pending} calls wait for {self._limit} threads")
        loop = asyncio.get_running_loop()
        call = _Call(lambda: function(*args, **kwargs), loop.create_future(), loop)
        self._waiting.append(call)
        self._dispatch()
        outcome: T = await call.outcome
        return outcome

    def resize(self, threads: int) -> None:
        """Set the maximum number of threads; surplus threads end when their calls have ended."""
        assert threads >= 1, f"pool {self.name} of {threads} threads"
        self._limit = threads
        self._end_idle_threads()
        self._dispatch()

    def close(self) -> None:
        """Reject new calls and fail the waiting ones with PoolClosed; running calls continue to their end."""
        self._is_closed = True
        while self._waiting:
            outcome = self._waiting.popleft().outcome
            if not outcome.done():
                outcome.set_exception(PoolClosed(self.name))
        self._end_idle_threads()

    def _dispatch(self) -> None:
        while self._waiting and self._busy < self._limit:
            call = self._waiting.popleft()
            if call.outcome.done():
                continue  # cancelled while it waited
            self._busy += 1
            future = self._threads.submit(call.function, self._busy)
            future.add_done_callback(lambda ended, call=call: self._report(call, ended))  # type: ignore[misc]

    def _report(self, call: _Call, ended: Future[Any]) -> None:
        """Report the end of `call` to the loop; called in the thread that has run it."""
        with suppress(RuntimeError):  # the loop is closed; no task waits for the result
            call.loop.call_soon_threadsafe(self._on_call_ended, call, ended)

    def _end_idle_threads(self) -> None:
        """End idle threads above the limit."""
        self._threads.keep(max(0 if self._is_closed else self._limit, self._busy))

    def _on_call_ended(self, call: _Call, ended: Future[Any]) -> None:
        """Complete `call` on the loop after its thread has run it."""
        self._busy -= 1
        outcome = call.outcome
        if not outcome.done():
            error = ended.exception()
            if error is None:
                outcome.set_result(ended.result())
            else:
                outcome.set_exception(_for_a_future(error))
        self._end_idle_threads()
        self._dispatch()


def _for_a_future(error: BaseException) -> BaseException:
    if isinstance(error, StopIteration):
        return RuntimeError(f"the call raised {error!r}")  # a future does not accept StopIteration
    return error
