"""Bounded pools of threads for what blocks: calls of a storage manager, index files.

The loop counts who is at work and who waits; threads only take calls and hand back what came of them. So
nothing but two queues is shared, and a pool can be made smaller while its threads are busy.

Threads are daemons: one that hangs in a call without a timeout does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

_log = logging.getLogger(__name__)

_STARTER: Final = ThreadPoolExecutor(1, "remote-thread-starter")
"""Starts threads: whoever does waits until the new one runs, on a busy machine for tens of milliseconds."""

P = ParamSpec("P")
T = TypeVar("T")


class PoolFull(Exception):
    """As many calls wait for a thread as may."""


class PoolClosed(Exception):
    """The pool takes no more calls."""


@dataclass(slots=True, eq=False)
class _Call:
    function: Callable[[], Any]
    outcome: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class BoundedPool:
    """Runs calls in at most `threads` threads, in the order in which they came.

    Bounds: at most `max_pending` calls wait for a thread (None: no limit of its own; then whoever calls
    has one). Threads are made when they are needed and kept.
    I/O: none of its own. Used from one event loop only.
    """

    def __init__(self, name: str, threads: int, max_pending: int | None = None) -> None:
        assert threads >= 1, f"pool {name} of {threads} threads"
        self.name = name
        self._limit = threads
        self._max_pending = max_pending
        self._waiting: deque[_Call] = deque()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._made = 0
        self._is_closed = False

    @property
    def threads(self) -> int:
        """How many threads there may be."""
        return self._limit

    @property
    def busy(self) -> int:
        """How many calls are in a thread now."""
        return self._busy

    @property
    def pending(self) -> int:
        """How many calls wait for a thread."""
        return len(self._waiting)

    @property
    def idle_share(self) -> float:
        """The share of threads that have nothing to do, as Kafka's ...AvgIdlePercent, from 0 to 1."""
        return max(0.0, 1.0 - self._busy / self._limit)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `function(*args)` returns or raises, from a thread.

        Cancelled while it waits, the call is not made. Cancelled in a thread it runs to its end and holds
        the thread until then; nobody hears what came of it.
        Errors: PoolFull, PoolClosed.
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
        self._hand_out()
        outcome: T = await call.outcome
        return outcome

    def resize(self, threads: int) -> None:
        """Allow more threads from now on, or fewer once they have ended what they do."""
        assert threads >= 1, f"pool {self.name} of {threads} threads"
        self._limit = threads
        self._let_go()
        self._hand_out()

    def close(self) -> None:
        """Take no more calls and make none that waits; those in threads run to their end."""
        self._is_closed = True
        while self._waiting:
            outcome = self._waiting.popleft().outcome
            if not outcome.done():
                outcome.set_exception(PoolClosed(self.name))
        self._let_go()

    def _hand_out(self) -> None:
        while self._waiting and self._busy < self._limit:
            call = self._waiting.popleft()
            if call.outcome.done():
                continue  # cancelled while it waited
            self._busy += 1
            if self._busy > self._threads:
                self._start_thread()
            self._calls.put(call)

    def _start_thread(self) -> None:
        self._threads += 1
        self._made += 1
        name = f"{self.name}-{self._made}"
        thread = threading.Thread(target=_work, args=(self._calls, self._ended), name=name, daemon=True)
        _STARTER.submit(_start, thread)

    def _let_go(self) -> None:
        """End the threads that are too many and idle."""
        kept = 0 if self._is_closed else self._limit
        while self._threads > max(kept, self._busy):
            self._threads -= 1
            self._calls.put(None)

    def _ended(self, call: _Call, answer: Any, error: BaseException | None) -> None:
        """On the loop: a thread is done with `call`."""
        self._busy -= 1
        outcome = call.outcome
        if not outcome.done():
            if error is None:
                outcome.set_result(answer)
            else:
                outcome.set_exception(error)
        self._let_go()
        self._hand_out()


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        _log.error("the thread %s cannot be started, others do its work: %s", thread.name, error)


def _work(
    calls: SimpleQueue[_Call | None], ended: Callable[[_Call, Any, BaseException | None], None]
) -> None:
    while (call := calls.get()) is not None:
        answer, error = None, None
        try:
            answer = call.function()
        except BaseException as raised:
            error = _for_a_future(raised)
        try:
            call.loop.call_soon_threadsafe(ended, call, answer, error)
        except RuntimeError:
            return  # the loop is closed; nobody waits any more
        del call, answer, error


def _for_a_future(error: BaseException) -> BaseException:
    if isinstance(error, StopIteration):
        return RuntimeError(f"the call raised {error!r}")  # a future refuses it
    return error
