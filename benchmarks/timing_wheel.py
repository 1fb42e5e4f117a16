"""A million timers of which 99% are cancelled: the timing wheel, a heap and the loops' call_later.

    python -m benchmarks.timing_wheel

Timers have delays of 0.5 to 30 seconds, and are cancelled after 10,000 further timers, as those of delayed
requests of a broker; time advances by a millisecond per 100 timers. The time of an event loop cannot be
advanced. Therefore its last column is the cost of one iteration that removes cancelled timers. Each candidate
runs three times in separate processes; the best run counts.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import multiprocessing
import resource
import time
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import uvloop

from tidelog.broker.purgatory.timing_wheel import TimerEntry, TimingWheel

TIMERS = 1_000_000
WINDOW = 10_000
PER_MS = 100
RUNS = 3
# Target: insert and cancel in the wheel take at most this many times what they take in the heap.
TARGET = 1.0


def do_nothing() -> None:
    """Do nothing when a timer expires."""


class Candidate(Protocol):
    """A collection of timers."""

    def add(self, deadline_ms: int) -> Any:
        """Add a timer; return the argument of `cancel`."""
        ...

    def cancel(self, timer: Any) -> None:
        """Cancel a timer."""
        ...

    def advance(self, now_ms: int) -> int:
        """Remove the expired timers; return their number."""
        ...

    def finish(self, now_ms: int) -> int:
        """Remove all timers."""
        ...


class Wheel:
    """The timing wheel of Tidelog."""

    def __init__(self) -> None:
        self._wheel = TimingWheel()

    def add(self, deadline_ms: int) -> TimerEntry:
        """See Candidate."""
        return self._wheel.add(deadline_ms, do_nothing)

    def cancel(self, timer: TimerEntry) -> None:
        """See Candidate."""
        timer.cancel()

    def advance(self, now_ms: int) -> int:
        """See Candidate."""
        return len(self._wheel.advance(now_ms))

    finish = advance


class Heap:
    """heapq with lazy cancellation: a cancelled timer remains until it is the first one."""

    def __init__(self) -> None:
        self._heap: list[list[Any]] = []
        self._sequence = 0

    def add(self, deadline_ms: int) -> list[Any]:
        """See Candidate."""
        self._sequence += 1
        timer = [deadline_ms, self._sequence, do_nothing]
        heapq.heappush(self._heap, timer)
        return timer

    def cancel(self, timer: list[Any]) -> None:
        """See Candidate."""
        timer[2] = None

    def advance(self, now_ms: int) -> int:
        """See Candidate."""
        heap, due = self._heap, 0
        while heap and (heap[0][2] is None or heap[0][0] <= now_ms):
            due += heapq.heappop(heap)[2] is not None
        return due

    finish = advance


class Loop:
    """call_at of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._start = loop.time()

    def add(self, deadline_ms: int) -> asyncio.TimerHandle:
        """See Candidate."""
        return self._loop.call_at(self._start + deadline_ms / 1000, do_nothing)

    def cancel(self, timer: asyncio.TimerHandle) -> None:
        """See Candidate."""
        timer.cancel()

    def advance(self, now_ms: int) -> int:
        """Do nothing: a loop has its own time."""
        return 0

    def finish(self, now_ms: int) -> int:
        """Run one iteration, in which the loop removes cancelled timers."""
        self._loop.run_until_complete(asyncio.sleep(0))
        return 0


CANDIDATES: dict[str, Callable[[], Candidate]] = {
    "timing wheel": Wheel,
    "heapq, lazy cancel": Heap,
    "asyncio call_later": lambda: Loop(asyncio.new_event_loop()),
    "uvloop call_later": lambda: Loop(uvloop.new_event_loop()),
}


def run_once(make: Callable[[], Candidate]) -> dict[str, float]:
    """Measure the microseconds per timer of each phase."""
    random = Random(1)
    delays = [random.randrange(500, 30_000) for _ in range(TIMERS)]
    keep = [random.random() < 0.01 for _ in range(TIMERS)]
    candidate = make()
    window: list[Any] = [None] * WINDOW
    advance_s, now_ms, due = 0.0, 0, 0
    gc.collect()
    started = time.perf_counter()
    for number, delay in enumerate(delays):
        slot = number % WINDOW
        if window[slot] is not None:
            candidate.cancel(window[slot])
        timer = candidate.add(now_ms + delay)
        window[slot] = None if keep[number] else timer
        if number % PER_MS == 0:
            now_ms += 1
            before = time.perf_counter()
            due += candidate.advance(now_ms)
            advance_s += time.perf_counter() - before
    insert_cancel_s = time.perf_counter() - started - advance_s
    for timer in window:
        if timer is not None:
            candidate.cancel(timer)
    before = time.perf_counter()
    due += candidate.finish(now_ms + 100_000)
    advance_s += time.perf_counter() - before
    return {
        "insert_cancel_us": insert_cancel_s / TIMERS * 1e6,
        "advance_us": advance_s / TIMERS * 1e6,
        "total_us": (insert_cancel_s + advance_s) / TIMERS * 1e6,
        "expired": due,
    }


def _measure(name: str, results: Any) -> None:
    best = min((run_once(CANDIDATES[name]) for _ in range(RUNS)), key=lambda run: run["total_us"])
    best["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    results.put(best)


def main() -> dict[str, Any]:
    """Measure all candidates, print a table, and return the figures."""
    context = multiprocessing.get_context("spawn")
    figures: dict[str, Any] = {}
    print(f"{TIMERS:,} timers, 99% cancelled; microseconds per timer, best of {RUNS}")
    print(f"{'':22}{'insert+cancel':>15}{'advance':>10}{'total':>8}{'peak MiB':>10}")
    for name in CANDIDATES:
        results: Any = context.SimpleQueue()
        process = context.Process(target=_measure, args=(name, results))
        process.start()
        figures[name] = run = results.get()
        process.join()
        print(
            f"{name:22}{run['insert_cancel_us']:15.2f}{run['advance_us']:10.2f}"
            f"{run['total_us']:8.2f}{run['peak_mib']:10.0f}"
        )
    heap = figures["heapq, lazy cancel"]
    figures["ratio"] = figures["timing wheel"]["insert_cancel_us"] / heap["insert_cancel_us"]
    figures["ratio_total"] = figures["timing wheel"]["total_us"] / heap["total_us"]
    figures["target"] = TARGET
    print(
        f"wheel / heapq: insert+cancel {figures['ratio']:.2f} (target <= {TARGET}), "
        f"total {figures['ratio_total']:.2f}"
    )
    return figures


if __name__ == "__main__":
    main()
