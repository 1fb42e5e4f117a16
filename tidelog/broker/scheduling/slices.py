"""Long work on the event loop, divided into slices between which other callbacks run.

The caller passes steps (`tidelog.protocol.steps`). The first slice runs at once, so small work completes
before `start` returns. The remaining steps wait in a queue. The loop runs one slice of the queue in each
iteration. No other callback therefore waits longer than one slice and one step.

    steps yield None            continue until SLICE_NS are used up, then wait at the end of the queue
    steps yield a function      run it in a thread, then wait at the end of the queue
    steps yield Heavy.BEGINS    continue if fewer than HEAVY_MAX pieces of work are heavy, else wait for one

Work on the request of a client holds the elements of its response until they are encoded. Thousands of
clients may request much at the same time. A request that has used LONG_SLICES therefore counts as long, and
waits if there are LONG_REQUESTS_MAX. One that has used HEAVY_SLICES is heavy. The work that encodes its
response counts in the same way from its start.

Bounds: HEAVY_MAX heavy pieces of work, and as many threads; LONG_REQUESTS_MAX. The queue holds at most one
piece of work for each request that is being handled, which is one per connection.
I/O: none of its own; the functions that steps yield run in the executor.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, cast

from tidelog.base.clock import Clock
from tidelog.protocol.steps import LONG_ARRAY, Heavy, Step, Steps, release_in_steps

T = TypeVar("T")

SLICE_NS: Final = 1_000_000
"""The time after which other callbacks of the event loop run."""
HEAVY_MAX: Final = 2
LONG_REQUESTS_MAX: Final = 16
"""The number of requests that have used LONG_SLICES and are served alternately."""
LONG_SLICES: Final = 3
"""A small request takes several slices only if another process has the processor meanwhile."""
HEAVY_SLICES: Final = 32
"""The elements of a response that takes this many slices need about 10 MB."""


class Work:
    """Steps that are being run. `on_completed` or `on_failed` is called at their end, if not cancelled."""

    __slots__ = (
        "_owner",
        "error",
        "is_ended",
        "is_heavy",
        "is_long",
        "is_request",
        "is_running",
        "on_completed",
        "on_failed",
        "result_of_thread",
        "slice_count",
        "steps",
    )

    def __init__(
        self,
        owner: Slices,
        steps: Steps[Any],
        on_completed: Callable[[Any], None],
        on_failed: Callable[[Exception], None],
        *,
        is_request: bool,
    ) -> None:
        self._owner = owner
        self.steps = steps
        self.on_completed = on_completed
        self.on_failed = on_failed
        self.result_of_thread: Any = None
        self.error: Exception | None = None
        self.is_ended = False
        self.is_heavy = False
        self.is_request = is_request
        self.is_long = False
        """Whether it counts towards LONG_REQUESTS_MAX."""
        self.slice_count = 0
        self.is_running = False

    def succeed(self, former: Work) -> None:
        """Continue the request of `former`, which has ended, with its elements: it does not wait again."""
        self.slice_count = former.slice_count
        self.is_long, self.is_heavy = former.is_long, former.is_heavy
        former.is_long = former.is_heavy = False

    def cancel(self) -> None:
        """Run no further step; neither `on_completed` nor `on_failed` is called."""
        if not self.is_ended:
            self.is_ended = True
            self._owner.on_cancelled(self)

    def resume(self) -> Step:
        """Run the steps to their next yield and return what they yield.

        Pass them the result or the error of the thread. Raise StopIteration if the steps have ended.
        """
        result, error = self.result_of_thread, self.error
        self.result_of_thread = self.error = None
        try:
            return self.steps.send(result) if error is None else self.steps.throw(error)
        finally:
            # The traceback of `error` refers to this frame, which would be a reference cycle.
            del error


class Slices:
    """The pieces of work of one event loop; `slice_count` is the number of slices that have been run."""

    def __init__(self, clock: Clock, executor: Executor | None = None, slice_ns: int = SLICE_NS) -> None:
        """Use `executor` for functions that steps yield, or the loop's own executor if it is None."""
        self.slice_count = 0
        self.heavy_count = 0
        """The number of pieces of work that hold much memory now; at most HEAVY_MAX."""
        self._now_ns = clock.monotonic_ns
        self._executor = executor
        self._slice_ns = slice_ns
        self._ready: deque[Work] = deque()
        self._waiting_to_be_heavy: deque[Work] = deque()
        self._long_count = 0
        self._waiting_to_be_long: OrderedDict[Work, None] = OrderedDict()
        self._slice_end_ns = 0
        """The end of the slice that is being run, or 0."""
        self._ending: Work | None = None
        """The work whose result is being passed on."""
        self._in_threads: dict[Work, None] = {}
        self._is_scheduled = False

    @property
    def pending_count(self) -> int:
        """The number of pieces of work that have started and not ended."""
        waiting = len(self._waiting_to_be_heavy) + len(self._waiting_to_be_long)
        return len(self._ready) + waiting + len(self._in_threads)

    def start(
        self,
        steps: Steps[T],
        on_completed: Callable[[T], None],
        on_failed: Callable[[Exception], None],
        *,
        is_request: bool = False,
    ) -> Work | None:
        """Run the first slice. Return None if the work has ended and one of the callbacks has been called.

        `is_request`: the work serves a client, and counts towards LONG_REQUESTS_MAX.
        """
        work = Work(self, steps, on_completed, on_failed, is_request=is_request)
        if is_request and self._ending is not None:
            work.succeed(self._ending)
        self._run_slice(work)
        return None if work.is_ended else work

    async def complete(self, steps: Steps[T]) -> T:
        """Return the result of `steps`. If the caller is cancelled, the steps are cancelled too."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def on_completed(outcome: T) -> None:
            if not result.done():
                result.set_result(outcome)

        def on_failed(error: Exception) -> None:
            if not result.done():
                result.set_exception(error)

        work = self.start(steps, on_completed, on_failed)
        try:
            return result.result() if work is None else await result
        finally:
            if work is not None:
                work.cancel()
            # The traceback of its error refers to this frame, which would be a reference cycle.
            result = cast("asyncio.Future[T]", None)

    def release_later(self, *arrays: Collection[Any]) -> None:
        """Release the elements of long `arrays` in slices, when the caller has returned.

        For a caller that refers to the arrays until then: it would release all elements at once.
        """
        for array in arrays:
            if len(array) >= LONG_ARRAY:
                steps = release_in_steps(list(array))
                asyncio.get_running_loop().call_soon(self.start, steps, _ignore, _ignore)

    def close(self) -> None:
        """Cancel all work."""
        waiting = (*self._waiting_to_be_heavy, *self._waiting_to_be_long)
        for work in (*self._ready, *waiting, *self._in_threads):
            work.cancel()

    def on_cancelled(self, work: Work) -> None:
        """Remove cancelled work from its queue and close its steps."""
        if work.is_running or work in self._in_threads:
            return  # Its steps are closed when the slice or the thread has ended.
        if work in self._waiting_to_be_heavy:
            self._waiting_to_be_heavy.remove(work)
        elif work in self._waiting_to_be_long:
            del self._waiting_to_be_long[work]
        elif work in self._ready:
            self._ready.remove(work)
        self._close(work)

    # ---- slices

    def _run_slice(self, work: Work) -> None:
        """Run steps until the slice's time is used up, they have to wait, or they have ended.

        Work that begins at the end of other work, such as the encoding of a response, gets the rest of the
        same slice.
        """
        self.slice_count += 1
        now_ns, outer_end_ns = self._now_ns, self._slice_end_ns
        end_ns = self._slice_end_ns = outer_end_ns or now_ns() + self._slice_ns
        try:
            if outer_end_ns and now_ns() >= end_ns:
                self._continue_later(work)
            else:
                self._run_until(work, end_ns)
        finally:
            self._slice_end_ns = outer_end_ns

    def _run_until(self, work: Work, end_ns: int) -> None:
        now_ns = self._now_ns
        work.is_running = True
        try:
            step = work.resume()
            while not work.is_ended and (step is None or self._can_continue(work, step)):
                if now_ns() >= end_ns:
                    self._continue_later(work)
                    break
                step = work.steps.send(None)
        except StopIteration as end:
            self._end(work, work.on_completed, end.value)
            return
        except Exception as error:
            self._end(work, work.on_failed, error)
            return
        finally:
            work.is_running = False
        if work.is_ended:
            self._close(work)

    def _continue_later(self, work: Work) -> None:
        """Let work wait for its next slice, or for the end of other requests if there are too many.

        Heavy work never waits for other requests, because they may wait to be heavy.
        """
        work.slice_count += 1
        if work.is_request and not work.is_heavy:
            if work.slice_count >= LONG_SLICES and not self._begin_long_part(work):
                return
            if work.slice_count >= HEAVY_SLICES and not self._begin_heavy_part(work):
                return
        self._ready.append(work)
        self._schedule()

    def _can_continue(self, work: Work, step: Step) -> bool:
        """Return whether the next step may run at once; otherwise the work waits."""
        if step is Heavy.BEGINS:
            return self._begin_heavy_part(work)
        if step is Heavy.ENDS:
            self._end_heavy_part(work)
            return True
        if callable(step):
            self._run_in_thread(work, step)
        return False

    def _end(self, work: Work, on_end: Callable[[Any], None], outcome: Any) -> None:
        """End work whose steps have ended; call `on_end` with the result or error, if not cancelled."""
        was_cancelled, work.is_ended = work.is_ended, True
        # The traceback of an error refers to the work, and what is called refers to the error.
        work.on_completed = work.on_failed = _ignore
        try:
            if not was_cancelled:
                self._ending = work
                on_end(outcome)
        finally:
            self._ending = None
            self._end_heavy_part(work)
            self._end_long_part(work)

    def _close(self, work: Work) -> None:
        """Close the steps of cancelled work at their last yield."""
        try:
            work.steps.close()
        finally:
            self._end_heavy_part(work)
            self._end_long_part(work)

    def _begin_long_part(self, work: Work) -> bool:
        """Count `work` as long and return True; if there are too many such requests, let it wait."""
        if work.is_long:
            return True
        if self._long_count < LONG_REQUESTS_MAX:
            self._long_count += 1
            work.is_long = True
            return True
        self._waiting_to_be_long[work] = None
        return False

    def _end_long_part(self, work: Work) -> None:
        """Stop counting `work` as long, if it is; the next request that waits continues."""
        if work.is_long:
            work.is_long = False
            self._long_count -= 1
            if self._waiting_to_be_long:
                self._continue_later(self._waiting_to_be_long.popitem(last=False)[0])

    def _begin_heavy_part(self, work: Work) -> bool:
        """Count `work` as heavy and return True; if there is too much heavy work, let it wait."""
        if work.is_heavy:
            return True
        if self.heavy_count < HEAVY_MAX:
            self.heavy_count += 1
            work.is_heavy = True
            return True
        self._waiting_to_be_heavy.append(work)
        return False

    def _end_heavy_part(self, work: Work) -> None:
        """Stop counting `work` as heavy, if it is; the next work that waits to be heavy continues."""
        if not work.is_heavy:
            return
        work.is_heavy = False
        self.heavy_count -= 1
        if self._waiting_to_be_heavy:
            next_work = self._waiting_to_be_heavy.popleft()
            next_work.is_heavy = True
            self.heavy_count += 1
            self._ready.append(next_work)
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_next_slice)

    def _run_next_slice(self) -> None:
        self._is_scheduled = False
        if not self._ready:
            return
        work = self._ready.popleft()
        if self._ready:
            self._schedule()
        self._run_slice(work)

    # ---- threads

    def _run_in_thread(self, work: Work, function: Callable[[], Any]) -> None:
        """Run `function` in the executor; its result or error is passed to the next step of `work`."""
        running = asyncio.get_running_loop().run_in_executor(self._executor, function)
        self._in_threads[work] = None

        def on_returned(outcome: asyncio.Future[Any]) -> None:
            self._in_threads.pop(work, None)
            error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
            if work.is_ended or not isinstance(error, Exception | None):
                work.is_ended = True
                self._close(work)
                return
            work.error = error
            work.result_of_thread = outcome.result() if error is None else None
            self._continue_later(work)

        running.add_done_callback(on_returned)


def _ignore(_: object) -> None:
    pass
