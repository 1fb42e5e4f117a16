"""When a worker is started, stopped and restarted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.logs.cleaning_workers import ThreadWorker
from tidelog.broker.logs.cleaning.worker_process import WorkerDied
from tidelog.broker.logs.cleaning.worker_slot import BACKOFF, IDLE_MS, WorkerSlot
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


class Workers:
    """Starts workers, or fails."""

    def __init__(self) -> None:
        self.started: list[ThreadWorker] = []
        self.fails = False

    def start(self) -> ThreadWorker:
        if self.fails:
            raise WorkerDied("no memory")
        self.started.append(ThreadWorker(CrashFileSystem()))
        return self.started[-1]


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def slot(workers: Workers, clock: ManualClock) -> Iterator[WorkerSlot]:
    with ThreadPoolExecutor(1) as thread:
        yield WorkerSlot(workers.start, thread, clock)


def advance_ms(clock: ManualClock, passed_ms: int) -> None:
    clock.advance_ns(passed_ms * 1_000_000)


async def test_a_worker_is_used_again_until_it_is_idle_for_long(
    slot: WorkerSlot, workers: Workers, clock: ManualClock
) -> None:
    worker = await slot.acquire()
    slot.on_round_completed()
    advance_ms(clock, IDLE_MS - 1)
    await slot.stop_if_idle()
    assert await slot.acquire() is worker and slot.idle_ms_left == IDLE_MS
    advance_ms(clock, IDLE_MS)
    await slot.stop_if_idle()
    assert workers.started[0].is_closed
    assert await slot.acquire() is workers.started[1]


async def test_the_back_off_doubles_with_each_death_and_ends_with_a_completed_round(
    slot: WorkerSlot, workers: Workers, clock: ManualClock
) -> None:
    for delay_ms in (BACKOFF.initial_ms, 2 * BACKOFF.initial_ms, 4 * BACKOFF.initial_ms):
        await slot.acquire()
        await slot.on_died()
        assert slot.backoff_ms == delay_ms and not slot.is_available
        advance_ms(clock, delay_ms)
        assert slot.is_available
    await slot.acquire()
    slot.on_round_completed()
    await slot.on_died()
    assert slot.backoff_ms == BACKOFF.initial_ms


async def test_a_worker_that_cannot_be_started_counts_as_a_death(slot: WorkerSlot, workers: Workers) -> None:
    workers.fails = True
    with pytest.raises(WorkerDied):
        await slot.acquire()
    await slot.on_died()
    assert slot.backoff_ms == BACKOFF.initial_ms and not workers.started
