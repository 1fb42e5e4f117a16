"""Long work on the event loop, divided into slices between which everybody else gets a turn.

Work is given as steps (`tidelog.protocol.steps`). Its first slice runs at once, so small work is done at
once. What
remains waits in a queue, of which the loop runs one slice in each of its turns: however much work there is,
no other callback waits longer than one slice and one step.

    steps yield None            continue until SLICE_NS are used up, then go to the end of the queue
    steps yield a function      it runs in a thread; then go to the end of the queue
    steps yield Heavy.BEGINS    continue if fewer than HEAVY_MAX works are heavy, else wait until one ends

Bounds: HEAVY_MAX heavy works, and as many threads. The queue is as long as there are requests being handled,
at most one per connection.
I/O: a shell; the functions run in the executor.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from tidelog.base.clock import Clock
from tidelog.protocol.steps import Heavy, Step, Steps

T = TypeVar("T")

SLICE_NS: Final = 2_000_000
HEAVY_MAX: Final = 2


class Work:
    """Steps that are being run; `done` or `failed` is called at their end, unless they are cancelled."""

    __slots__ = ("_owner", "answer", "done", "error", "failed", "is_ended", "is_heavy", "is_running", "steps")

    def __init__(
        self,
        owner: Slices,
        steps: Steps[Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._owner = owner
        self.steps = steps
        self.done = done
        self.failed = failed
        self.answer: Any = None
        self.error: Exception | None = None
        self.is_ended = False
        self.is_heavy = False
        self.is_running = False

    def cancel(self) -> None:
        """Run no further step; neither `done` nor `failed` is called."""
        if not self.is_ended:
            self.is_ended = True
            self._owner.cancelled(self)

    def resume(self) -> Step:
        """Run to the next yield."""
        answer, error = self.answer, self.error
        self.answer = self.error = None
        return self.steps.send(answer) if error is None else self.steps.throw(error)


class Slices:
    """All the work of one event loop; `count` is how many slices there have been."""

    def __init__(self, clock: Clock, executor: Executor | None = None, slice_ns: int = SLICE_NS) -> None:
        """`executor` None: the loop's own."""
        self.count = 0
        self._now_ns = clock.monotonic_ns
        self._executor = executor
        self._slice_ns = slice_ns
        self._ready: deque[Work] = deque()
        self._waiting_to_be_heavy: deque[Work] = deque()
        self._aside: set[Work] = set()
        self._heavy = 0
        self._is_scheduled = False

    @property
    def pending(self) -> int:
        """Pieces of work that have begun and not ended."""
        return len(self._ready) + len(self._waiting_to_be_heavy) + len(self._aside)

    @property
    def heavy(self) -> int:
        """Pieces of work that hold much memory now; at most HEAVY_MAX."""
        return self._heavy

    def start(
        self, steps: Steps[T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> Work | None:
        """Run the first slice; None when that was all, and `done` or `failed` has been called."""
        work = Work(self, steps, done, failed)
        self._run_slice(work)
        return None if work.is_ended else work

    async def complete(self, steps: Steps[T]) -> T:
        """Return the result of `steps`; a caller that is cancelled cancels them."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(outcome: T) -> None:
            if not result.done():
                result.set_result(outcome)

        def failed(error: Exception) -> None:
            if not result.done():
                result.set_exception(error)

        work = self.start(steps, done, failed)
        try:
            return result.result() if work is None else await result
        finally:
            if work is not None:
                work.cancel()

    def close(self) -> None:
        """Cancel everything."""
        for work in (*self._ready, *self._waiting_to_be_heavy, *self._aside):
            work.cancel()

    def cancelled(self, work: Work) -> None:
        """Called by work that is to go no further."""
        if work.is_running or work in self._aside:
            return  # The slice, or the thread, is waited for.
        if work in self._waiting_to_be_heavy:
            self._waiting_to_be_heavy.remove(work)
        elif work in self._ready:
            self._ready.remove(work)
        self._let_go(work)

    # ---- slices

    def _run_slice(self, work: Work) -> None:
        """Run steps until their time is up, they have to wait, or they have ended."""
        self.count += 1
        now_ns = self._now_ns
        ends_ns = now_ns() + self._slice_ns
        work.is_running = True
        try:
            step = work.resume()
            while not work.is_ended and (step is None or self._goes_on(work, step)):
                if now_ns() >= ends_ns:
                    self._ready.append(work)
                    self._schedule()
                    break
                step = work.steps.send(None)
        except StopIteration as end:
            self._ended(work, work.done, end.value)
            return
        except Exception as error:
            self._ended(work, work.failed, error)
            return
        finally:
            work.is_running = False
        if work.is_ended:
            self._let_go(work)

    def _goes_on(self, work: Work, step: Step) -> bool:
        """Whether the next step may be run at once."""
        if step is Heavy.BEGINS:
            if self._heavy < HEAVY_MAX:
                self._heavy += 1
                work.is_heavy = True
                return True
            self._waiting_to_be_heavy.append(work)
        elif step is Heavy.ENDS:
            self._not_heavy(work)
            return True
        elif callable(step):
            self._run_aside(work, step)
        return False

    def _ended(self, work: Work, tell: Callable[[Any], None], outcome: Any) -> None:
        was_cancelled, work.is_ended = work.is_ended, True
        self._not_heavy(work)
        if not was_cancelled:
            tell(outcome)

    def _let_go(self, work: Work) -> None:
        """End cancelled work where it stands."""
        try:
            work.steps.close()
        finally:
            self._not_heavy(work)

    def _not_heavy(self, work: Work) -> None:
        if not work.is_heavy:
            return
        work.is_heavy = False
        self._heavy -= 1
        if self._waiting_to_be_heavy:
            following = self._waiting_to_be_heavy.popleft()
            following.is_heavy = True
            self._heavy += 1
            self._ready.append(following)
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if not self._ready:
            return
        work = self._ready.popleft()
        if self._ready:
            self._schedule()
        self._run_slice(work)

    # ---- threads

    def _run_aside(self, work: Work, function: Callable[[], Any]) -> None:
        running = asyncio.get_running_loop().run_in_executor(self._executor, function)
        self._aside.add(work)

        def returned(outcome: asyncio.Future[Any]) -> None:
            self._aside.discard(work)
            error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
            if work.is_ended or not isinstance(error, Exception | None):
                work.is_ended = True
                self._let_go(work)
                return
            work.error = error
            work.answer = outcome.result() if error is None else None
            self._ready.append(work)
            self._schedule()

        running.add_done_callback(returned)
