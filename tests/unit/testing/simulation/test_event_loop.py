"""The event loop of a simulated process: virtual time, order of callbacks and of work in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.process import Machine, Process
from tidelog.testing.simulation.scheduler import SECOND, Scheduler

EVENTS_MAX = 100_000
ResultT = TypeVar("ResultT")


def process_of(seed: int = 1) -> Process:
    return Machine(Network(Scheduler(seed)), "machine", "10.0.0.1").start_process()


def run(process: Process, work: Coroutine[Any, Any, ResultT], timeout_s: float = 3600.0) -> ResultT:
    """Run a coroutine to its end, and return its result."""
    task = process.start(work)
    scheduler = process.state.machine.scheduler
    assert scheduler.run_until(task.done, int(timeout_s * SECOND), EVENTS_MAX)
    return task.result()


def test_an_hour_of_sleep_takes_an_hour_of_virtual_time_only() -> None:
    process = process_of()

    async def sleep() -> float:
        start = asyncio.get_running_loop().time()
        await asyncio.sleep(3_000)
        return asyncio.get_running_loop().time() - start

    assert run(process, sleep()) == pytest.approx(3_000, abs=0.01)


def test_callbacks_of_one_process_run_in_the_order_in_which_they_were_scheduled() -> None:
    process = process_of()
    called: list[int] = []

    async def schedule() -> None:
        for number in range(20):
            asyncio.get_running_loop().call_soon(called.append, number)
        await asyncio.sleep(1)

    run(process, schedule())
    assert called == list(range(20))


def test_the_seed_determines_the_order_of_work_in_threads() -> None:
    def order_of(seed: int) -> list[int]:
        process = process_of(seed)
        completed: list[int] = []

        async def submit() -> None:
            loop = asyncio.get_running_loop()
            executor = process.threads.executor(4, "test")
            await asyncio.gather(*(loop.run_in_executor(executor, completed.append, n) for n in range(6)))

        run(process, submit())
        return completed

    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(10)}) > 1


def test_an_executor_with_one_thread_keeps_the_order() -> None:
    process = process_of(3)
    completed: list[int] = []

    async def submit() -> None:
        loop = asyncio.get_running_loop()
        executor = process.threads.executor(1, "test")
        await asyncio.gather(*(loop.run_in_executor(executor, completed.append, n) for n in range(20)))

    run(process, submit())
    assert completed == list(range(20))


def test_the_shutdown_of_an_executor_runs_the_remaining_work() -> None:
    process = process_of()
    completed: list[int] = []
    executor = process.threads.executor(2, "test")
    futures = [executor.submit(completed.append, number) for number in range(5)]
    with pytest.raises(RuntimeError, match="cannot wait"):
        futures[0].result()
    executor.shutdown()
    assert sorted(completed) == list(range(5))
    assert all(future.done() for future in futures)


def test_a_function_that_waits_occupies_its_thread_for_that_time() -> None:
    process = process_of()

    def wait() -> None:
        process.state.spend(2 * SECOND)

    async def submit() -> float:
        loop = asyncio.get_running_loop()
        executor = process.threads.executor(1, "test")
        await asyncio.gather(*(loop.run_in_executor(executor, wait) for _ in range(3)))
        return loop.time()

    assert run(process, submit()) == pytest.approx(6, abs=0.01)


def test_the_result_of_a_function_is_lost_if_its_process_ends_within_its_time() -> None:
    process = process_of()

    def wait() -> None:
        process.state.spend(2 * SECOND)

    future = process.threads.executor(1, "test").submit(wait)
    scheduler = process.state.machine.scheduler
    scheduler.run_until(lambda: False, SECOND, EVENTS_MAX)
    process.end()
    scheduler.run_until(lambda: False, 10 * SECOND, EVENTS_MAX)
    assert not future.done()


def test_the_error_of_a_function_in_a_thread_is_raised_where_it_is_awaited() -> None:
    async def submit() -> None:
        await asyncio.to_thread(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        run(process_of(), submit())


def test_a_process_that_has_ended_runs_no_further_callback() -> None:
    process = process_of()
    called: list[int] = []
    process.loop.call_later(1, called.append, 1)
    process.loop.call_soon(called.append, 2)
    process.end()
    process.state.machine.scheduler.run_until(lambda: False, 10 * SECOND, EVENTS_MAX)
    assert called == []


def test_a_paused_process_continues_after_its_pause() -> None:
    process = process_of()
    scheduler = process.state.machine.scheduler
    called: list[float] = []
    process.loop.call_later(1, lambda: called.append(process.loop.time()))
    process.pause()
    scheduler.run_until(lambda: False, 5 * SECOND, EVENTS_MAX)
    assert called == []
    process.resume()
    scheduler.run_until(lambda: False, 6 * SECOND, EVENTS_MAX)
    assert called == [pytest.approx(5, abs=0.01)]


def test_sets_of_tasks_have_the_same_order_in_each_run() -> None:
    def order_of_tasks() -> list[int]:
        process = process_of()

        async def create_tasks() -> list[int]:
            tasks = [asyncio.create_task(asyncio.sleep(10)) for _ in range(50)]
            await asyncio.sleep(0)
            return [tasks.index(task) for task in set(tasks)]

        return run(process, create_tasks())

    junk = [bytearray(100) for _ in range(1_000)]
    assert order_of_tasks() == order_of_tasks()
    del junk


@pytest.mark.parametrize("rate_ppm", [-100_000, 100_000])
def test_timers_of_a_machine_whose_clocks_drift_are_early_or_late(rate_ppm: int) -> None:
    process = process_of()
    scheduler, machine = process.state.machine.scheduler, process.state.machine

    async def sleep(duration_s: float) -> tuple[float, float, float]:
        start_s, start_ns, wall_ms = process.loop.time(), scheduler.now_ns, process.clock.wall_ms()
        await asyncio.sleep(duration_s)
        elapsed_s = process.loop.time() - start_s
        return elapsed_s, (scheduler.now_ns - start_ns) / SECOND, (process.clock.wall_ms() - wall_ms) / 1000

    machine.let_clocks_drift(rate_ppm)
    local_s, virtual_s, wall_s = run(process, sleep(100))
    assert local_s == pytest.approx(100, abs=0.01)
    assert wall_s == pytest.approx(100, abs=0.01)
    assert virtual_s == pytest.approx(100 / (1 + rate_ppm / 1_000_000), abs=0.01)
    before = process.loop.time()
    machine.let_clocks_drift(0)
    assert process.loop.time() == pytest.approx(before, abs=0.01)
    local_s, virtual_s, _ = run(process, sleep(100))
    assert local_s == pytest.approx(virtual_s, abs=0.01)
