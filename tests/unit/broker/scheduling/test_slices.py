"""Long work runs in slices between other callbacks, and indivisible work in threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import cast

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import STEPS_PER_SLICE, CountingClock, IterationCounter, counted_slices
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.scheduling.slices import (
    HEAVY_MAX,
    HEAVY_SLICES,
    LONG_REQUESTS_MAX,
    LONG_SLICES,
    Slices,
)
from tidelog.protocol.steps import Heavy, Steps, as_heavy_work, in_thread, map_items, run_steps

fail = cast(Callable[[object], None], pytest.fail)


def numbers(count: int, log: list[str] | None = None, name: str = "") -> Steps[int]:
    for number in range(count):
        if log is not None:
            log.append(f"{name}{number}")
        yield None
    return count


@on_both_loops
async def test_short_work_completes_before_start_returns() -> None:
    results: list[int] = []
    many = counted_slices()
    assert many.start(numbers(STEPS_PER_SLICE - 1), results.append, fail) is None
    assert (results, many.slice_count, many.pending_count) == ([9], 1, 0)


@on_both_loops
async def test_long_work_yields_between_its_slices() -> None:
    turns, many = IterationCounter(), counted_slices()
    assert await many.complete(numbers(1000)) == 1000
    assert 90 <= many.slice_count <= 110
    assert turns.count >= many.slice_count - 2
    turns.stop()


@on_both_loops
async def test_one_loop_iteration_runs_one_slice() -> None:
    turns, many = IterationCounter(), counted_slices()
    await asyncio.gather(*(many.complete(numbers(100)) for _ in range(20)))
    # The first slices run in the caller of the work.
    assert turns.count >= many.slice_count - 20 - 2
    turns.stop()


@on_both_loops
async def test_several_works_alternate() -> None:
    many, log = counted_slices(), list[str]()
    await asyncio.gather(many.complete(numbers(30, log, "a")), many.complete(numbers(30, log, "b")))
    assert log.index("b0") < log.index("a29")
    assert log.index("a15") < log.index("b29")


@on_both_loops
async def test_an_error_is_raised_in_the_waiting_caller() -> None:
    def fail_at(at: int) -> Steps[int]:
        yield from numbers(at)
        raise ValueError(f"after {at}")

    for at in (1, 100):
        with pytest.raises(ValueError, match=f"after {at}"):
            await counted_slices().complete(fail_at(at))


@on_both_loops
async def test_cancelled_work_is_closed_at_once_without_a_result() -> None:
    many, closed = counted_slices(), list[str]()

    def work() -> Steps[int]:
        try:
            yield from numbers(100)
        finally:
            closed.append("closed")
        return 0

    started = many.start(work(), fail, fail)
    assert started is not None
    started.cancel()
    assert (closed, many.pending_count) == (["closed"], 0)
    started.cancel()
    waiting = asyncio.ensure_future(many.complete(work()))
    await asyncio.sleep(0)
    waiting.cancel()
    await eventually(lambda: waiting.done() and not many.pending_count)
    assert waiting.cancelled() and len(closed) == 2


@on_both_loops
async def test_work_cancelled_by_its_own_step_ends_with_the_step() -> None:
    many, log = counted_slices(), list[str]()

    def work() -> Steps[None]:
        yield from numbers(15)
        started.cancel()
        log.append("last step")
        yield None
        log.append("too late")

    started = many.start(work(), fail, fail)
    assert started is not None
    await eventually(lambda: not many.pending_count)
    assert log == ["last step"]


@on_both_loops
async def test_indivisible_long_work_runs_in_a_thread() -> None:
    here, many = threading.get_ident(), counted_slices()

    def work() -> Steps[tuple[int, str]]:
        where = yield from in_thread(threading.get_ident)
        try:
            yield from in_thread(lambda: [].pop())
        except IndexError as error:
            return where, str(error)
        return where, "no error"

    where, text = await many.complete(work())
    assert where != here and "empty" in text
    assert run_steps(work()) == (here, text)


@on_both_loops
async def test_an_error_of_a_thread_is_freed_without_the_garbage_collector() -> None:
    """Work may hold the frame of a request: it must not wait for the garbage collector."""

    class HeldValue:
        pass

    def fail() -> None:
        raise ValueError("in a thread")

    def steps(held: HeldValue) -> Steps[None]:
        yield from in_thread(fail)

    held = HeldValue()
    is_freed = weakref.ref(held)
    failed: list[str] = []
    gc.disable()
    try:
        Slices(CountingClock()).start(steps(held), print, lambda error: failed.append(str(error)))
        del held
        await eventually(lambda: bool(failed))
        await eventually(lambda: is_freed() is None)
    finally:
        gc.enable()
    assert failed == ["in a thread"]


@pytest.mark.parametrize("step_count", [1, 10 * STEPS_PER_SLICE], ids=["one slice", "many slices"])
async def test_the_error_of_failed_steps_is_in_no_reference_cycle(step_count: int) -> None:
    class Refusal(Exception):
        pass

    refusals: list[weakref.ref[Refusal]] = []

    def steps() -> Steps[None]:
        yield from numbers(step_count)
        error = Refusal()
        refusals.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    gc.disable()
    try:
        with suppress(Refusal):
            await counted_slices().complete(steps())
        await eventually(lambda: refusals[0]() is None)
    finally:
        gc.enable()


@on_both_loops
async def test_the_elements_of_a_long_array_are_released_in_slices_after_its_owner() -> None:
    class Element:
        pass

    def owner(slices: Slices) -> weakref.WeakSet[Element]:
        elements = [Element() for _ in range(20_000)]
        slices.release_later(elements, elements[:10])
        return weakref.WeakSet(elements)

    many = counted_slices()
    alive = owner(many)
    assert len(alive) == 20_000
    counts = []
    while alive:
        await asyncio.sleep(0)
        counts.append(len(alive))
    assert max(before - after for before, after in pairwise(counts)) <= 200 * (STEPS_PER_SLICE + 1)


@on_both_loops
async def test_the_result_of_a_thread_for_cancelled_work_is_discarded() -> None:
    gate, started, many = threading.Event(), threading.Event(), counted_slices()

    def wait_for_release() -> int:
        started.set()
        gate.wait(TIMEOUT_S)
        return 1

    work = many.start(as_heavy_work(in_thread(wait_for_release)), fail, fail)
    assert work is not None
    await eventually(started.is_set)
    work.cancel()
    assert many.pending_count == 1, "the thread still holds what it works with"
    gate.set()
    await eventually(lambda: not many.pending_count)
    await asyncio.gather(*(many.complete(as_heavy_work(numbers(20))) for _ in range(HEAVY_MAX)))


@on_both_loops
async def test_the_number_of_heavy_works_is_limited() -> None:
    many, heavy, most = counted_slices(), 0, 0

    def body(fails: bool) -> Steps[None]:
        nonlocal heavy, most
        heavy += 1
        most = max(most, heavy)
        yield from numbers(40)
        heavy -= 1
        if fails:
            raise ValueError("no")

    def work(fails: bool) -> Steps[None]:
        for _ in range(2):
            yield from as_heavy_work(body(fails))

    wanted = [many.complete(work(fails)) for fails in (False, True) * 6]
    outcomes = await asyncio.gather(*wanted, return_exceptions=True)
    assert most == HEAVY_MAX and heavy == 0
    assert [isinstance(outcome, ValueError) for outcome in outcomes] == [False, True] * 6


@on_both_loops
async def test_a_slot_for_heavy_work_is_released_on_cancellation_and_early_end() -> None:
    many = counted_slices()

    def hold_slot() -> Steps[None]:
        yield Heavy.BEGINS
        yield from numbers(20)

    await asyncio.gather(*(many.complete(hold_slot()) for _ in range(3 * HEAVY_MAX)))
    holders = [many.start(as_heavy_work(numbers(1000)), fail, fail) for _ in range(HEAVY_MAX)]
    results: list[int] = []
    waiting = many.start(as_heavy_work(numbers(20)), results.append, fail)
    dropped = many.start(as_heavy_work(numbers(20)), fail, fail)
    assert waiting is not None and dropped is not None
    dropped.cancel()
    for holder in holders:
        assert holder is not None
        holder.cancel()
    await eventually(lambda: results == [20])
    assert not many.pending_count


@on_both_loops
async def test_work_that_begins_at_the_end_of_other_work_gets_the_rest_of_its_slice() -> None:
    many, results, log = counted_slices(), list[int](), list[str]()

    def encode(_: int) -> None:
        for name in ("response ", "release "):
            assert many.start(numbers(2 * STEPS_PER_SLICE, log, name), results.append, fail) is not None

    many.start(numbers(STEPS_PER_SLICE // 2), encode, fail)
    assert 0 < len(log) < STEPS_PER_SLICE and "release 0" not in log
    await eventually(lambda: len(results) == 2)


class Elements:
    """The requests that have computed a part of their response, and have not encoded all of it."""

    def __init__(self, many: Slices) -> None:
        self.most = 0
        self.responses: list[int] = []
        self._many = many
        self._of_requests: dict[int, int] = {}

    def request(self, number: int, step_count: int) -> None:
        """Start a request whose response is computed, and then encoded, in `step_count` steps each."""
        self._many.start(
            self._compute(number, step_count),
            lambda _: self._respond(number, step_count),
            fail,
            is_request=True,
        )

    def _compute(self, number: int, step_count: int) -> Steps[None]:
        for step in range(step_count):
            self._of_requests[number] = step
            long = LONG_SLICES * STEPS_PER_SLICE
            self.most = max(self.most, sum(count > long for count in self._of_requests.values()))
            yield None

    def _respond(self, number: int, step_count: int) -> None:
        self._many.start(numbers(step_count), lambda _: self._end(number), fail, is_request=True)

    def _end(self, number: int) -> None:
        del self._of_requests[number]
        self.responses.append(number)


@on_both_loops
async def test_the_number_of_requests_that_hold_the_elements_of_their_response_is_limited() -> None:
    many = counted_slices()
    elements, count = Elements(many), 5 * LONG_REQUESTS_MAX
    for number in range(count):
        elements.request(number, 3 * LONG_SLICES * STEPS_PER_SLICE)
    other = many.complete(numbers(20 * STEPS_PER_SLICE))
    assert await other == 20 * STEPS_PER_SLICE
    assert len(elements.responses) < count, "other work does not wait for the requests"
    elements.request(count, STEPS_PER_SLICE)
    await eventually(lambda: count in elements.responses)
    assert len(elements.responses) < count, "neither does a small request"
    await eventually(lambda: not many.pending_count)
    assert elements.most == LONG_REQUESTS_MAX
    assert sorted(elements.responses) == list(range(count + 1))


@on_both_loops
async def test_requests_that_need_many_slices_are_heavy_until_they_are_encoded() -> None:
    many = counted_slices()
    large = HEAVY_SLICES * STEPS_PER_SLICE
    elements = Elements(many)
    for number in range(4 * HEAVY_MAX):
        elements.request(number, 2 * large)
    most_heavy, responses = 0, list[int]()
    while many.pending_count:
        most_heavy = max(most_heavy, many.heavy_count)
        await asyncio.sleep(0)
    assert most_heavy == HEAVY_MAX
    assert elements.responses == list(range(4 * HEAVY_MAX)), "one after the other"
    many.start(as_heavy_work(numbers(20)), responses.append, fail)
    await eventually(lambda: responses == [20])


@on_both_loops
async def test_cancelled_requests_that_wait_or_are_long_let_others_continue() -> None:
    many, results = counted_slices(), list[int]()
    works = [
        many.start(numbers(1000), results.append, fail, is_request=True) for _ in range(3 * LONG_REQUESTS_MAX)
    ]
    for work in works[:-1]:
        assert work is not None
        work.cancel()
    await eventually(lambda: results == [1000])
    assert not many.pending_count


@on_both_loops
async def test_close_cancels_everything() -> None:
    many, gate = counted_slices(), threading.Event()
    with ThreadPoolExecutor(1) as executor:
        in_threads = Slices(CountingClock(), executor)
        in_threads.start(in_thread(lambda: gate.wait(TIMEOUT_S)), fail, fail)
        many.start(numbers(1000), fail, fail)
        many.close()
        in_threads.close()
        gate.set()
        await eventually(lambda: not many.pending_count and not in_threads.pending_count)


def test_each_applies_the_function_with_one_step_per_item() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2, 3)

    assert run_steps(map_items(lambda item: item * 2, items())) == (2, 4, 6)
    assert sum(1 for _ in map_items(str, range(5))) == 5
