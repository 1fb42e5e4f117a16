"""Thread pools: bounds on running and waiting calls, and cancellation."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.base.bounded_pool import BoundedPool, PoolClosed, PoolFull


class Gate:
    """Blocks calls until it is opened, and counts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = threading.Event()
        self.inside = 0
        self.inside_max = 0

    def pass_through(self, value: int = 0) -> int:
        with self._lock:
            self.inside += 1
            self.inside_max = max(self.inside_max, self.inside)
        assert self._open.wait(TIMEOUT_S)
        with self._lock:
            self.inside -= 1
        return value

    def open(self) -> None:
        self._open.set()


@on_both_loops
async def test_a_call_returns_the_result_or_raises_the_error_of_its_function() -> None:
    pool = BoundedPool("test", 2)
    assert await pool.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await pool.run(divmod, 7, 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(next, iter(()))
    assert pool.idle_share == 1.0
    pool.close()


@on_both_loops
@pytest.mark.parametrize("threads", [1, 2])
async def test_at_most_the_maximum_of_calls_run_in_threads_and_others_run_in_order(
    threads: int,
) -> None:
    pool, gate = BoundedPool("test", threads), Gate()
    order: list[int] = []

    def record_order(value: int) -> int:
        order.append(value)
        return gate.pass_through(value)

    calls = [asyncio.create_task(pool.run(record_order, value)) for value in range(6)]
    await eventually(lambda: gate.inside == threads)
    assert pool.pending == 6 - threads
    gate.open()
    assert await asyncio.gather(*calls) == list(range(6))
    assert gate.inside_max == threads
    # The two threads may log in any order.
    assert threads > 1 or order == list(range(6))
    pool.close()


@on_both_loops
async def test_a_call_beyond_the_queue_bound_is_refused_until_another_is_cancelled() -> None:
    pool, gate = BoundedPool("test", 1, max_pending=1), Gate()
    first = asyncio.create_task(pool.run(gate.pass_through))
    await eventually(lambda: gate.inside == 1)
    second = asyncio.create_task(pool.run(gate.pass_through))
    await eventually(lambda: pool.pending == 1)
    with pytest.raises(PoolFull):
        await pool.run(gate.pass_through)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    third = asyncio.create_task(pool.run(gate.pass_through, 3))
    gate.open()
    assert await third == 3
    await first
    pool.close()


@on_both_loops
async def test_a_cancelled_call_occupies_its_thread_until_it_ends() -> None:
    pool, gate = BoundedPool("test", 1), Gate()
    given_up = asyncio.create_task(pool.run(gate.pass_through))
    await eventually(lambda: gate.inside == 1)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert pool.idle_share == 0.0
    following = asyncio.create_task(pool.run(gate.pass_through, 5))
    await eventually(lambda: pool.pending == 1)
    gate.open()
    assert await following == 5
    pool.close()


@on_both_loops
async def test_threads_start_on_demand_and_end_when_idle() -> None:
    pool, gate = BoundedPool("test", 1), Gate()
    calls = [asyncio.create_task(pool.run(gate.pass_through)) for _ in range(6)]
    await eventually(lambda: gate.inside == 1)
    pool.resize(3)
    await eventually(lambda: gate.inside == 3)
    pool.resize(1)
    gate.open()
    await asyncio.gather(*calls)
    assert pool.threads == 1
    again = Gate()
    calls = [asyncio.create_task(pool.run(again.pass_through)) for _ in range(3)]
    await eventually(lambda: again.inside == 1)
    again.open()
    await asyncio.gather(*calls)
    assert again.inside_max == 1
    pool.close()


@on_both_loops
async def test_the_event_loop_runs_while_a_new_thread_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, core_is_free, start = BoundedPool("test", 1), threading.Event(), threading.Thread.start

    def start_late(thread: threading.Thread) -> None:
        if thread.name.startswith("test-"):
            assert core_is_free.wait(TIMEOUT_S)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    call = asyncio.create_task(pool.run(divmod, 7, 2))
    await eventually(lambda: pool.idle_share < 1.0)
    core_is_free.set()
    assert await call == (3, 1)
    pool.close()


@on_both_loops
async def test_a_closed_pool_refuses_calls_and_its_threads_end() -> None:
    pool, gate = BoundedPool("closing", 1), Gate()
    running = asyncio.create_task(pool.run(gate.pass_through, 1))
    await eventually(lambda: gate.inside == 1)
    waiting = asyncio.create_task(pool.run(gate.pass_through, 2))
    await eventually(lambda: pool.pending == 1)
    pool.close()
    with pytest.raises(PoolClosed):
        await waiting
    with pytest.raises(PoolClosed):
        await pool.run(gate.pass_through)
    gate.open()
    assert await running == 1
    await eventually(lambda: not any(thread.name.startswith("closing-") for thread in threading.enumerate()))
