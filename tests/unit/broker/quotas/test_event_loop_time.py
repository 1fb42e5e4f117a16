"""The time of a request on the event loop, without the time in which it waits."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.waiting import eventually
from tidelog.broker.quotas.event_loop_time import EventLoopTime
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.steps import Steps

MILLISECOND_NS = 1_000_000


def work_of_seven_ms(clock: ManualClock) -> Steps[str]:
    clock.advance_ns(3 * MILLISECOND_NS)
    yield None
    clock.advance_ns(4 * MILLISECOND_NS)
    return "result"


def test_the_time_of_steps_is_counted() -> None:
    clock = ManualClock()
    time = EventLoopTime(clock.monotonic_ns)
    steps = time.of_steps(work_of_seven_ms(clock))
    next(steps)
    clock.advance_ns(100 * MILLISECOND_NS)
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert (ended.value.value, time.elapsed_ns) == ("result", 7 * MILLISECOND_NS)


async def test_the_time_of_a_coroutine_is_counted_without_its_waits() -> None:
    clock = ManualClock()
    time = EventLoopTime(clock.monotonic_ns)
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        clock.advance_ns(MILLISECOND_NS)
        result = await future
        clock.advance_ns(2 * MILLISECOND_NS)
        return result

    async def run() -> str:
        return await time.of_coroutine(work())

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    clock.advance_ns(100 * MILLISECOND_NS)
    future.set_result("result")
    assert (await task, time.elapsed_ns) == ("result", 3 * MILLISECOND_NS)


async def test_steps_that_a_coroutine_runs_at_once_are_counted_once() -> None:
    clock = ManualClock()
    time = EventLoopTime(clock.monotonic_ns)
    slices = Slices(clock)

    async def work() -> str:
        return await slices.complete(time.of_steps(work_of_seven_ms(clock)))

    assert await time.of_coroutine(work()) == "result"
    assert time.elapsed_ns == 7 * MILLISECOND_NS


async def test_errors_and_cancellation_reach_a_measured_coroutine() -> None:
    time = EventLoopTime(ManualClock().monotonic_ns)
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(KeyError("topic"))

    async def work() -> str:
        try:
            await future
        except KeyError:
            await asyncio.sleep(3_600)
        return "not reached"

    async def run() -> str:
        return await time.of_coroutine(work())

    task = asyncio.create_task(run())
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_error_of_a_measured_coroutine_is_in_no_reference_cycle() -> None:
    class Refusal(Exception):
        pass

    refusals: list[weakref.ref[Refusal]] = []

    def refuse(future: asyncio.Future[None]) -> None:
        refusal = Refusal()
        refusals.append(weakref.ref(refusal))
        future.set_exception(refusal)

    def refuse_later() -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(refuse, future)
        return future

    async def work() -> None:
        await refuse_later()

    gc.disable()
    try:
        with suppress(Refusal):
            await EventLoopTime(ManualClock().monotonic_ns).of_coroutine(work())
        await eventually(lambda: refusals[0]() is None)
    finally:
        gc.enable()
