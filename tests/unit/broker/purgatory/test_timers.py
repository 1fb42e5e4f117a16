"""Timers on a manual clock, and the driver on real loops."""

from __future__ import annotations

import logging
from functools import partial

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.waiting import eventually, remains
from tidelog.base.clock import SystemClock
from tidelog.broker.purgatory.timers import TimerDriver, Timers


def timers_of(clock: ManualClock) -> Timers:
    return Timers(clock.monotonic_ms)


def test_callbacks_run_when_their_delay_has_expired() -> None:
    clock = ManualClock(monotonic_ms=5_000)
    timers = timers_of(clock)
    calls: list[str] = []
    timers.schedule(30, lambda: calls.append("late"))
    timers.schedule(10, lambda: calls.append("early"))
    timers.schedule(20, lambda: calls.append("never")).cancel()
    assert timers.next_deadline_ms() is not None
    assert timers.advance() == 0
    clock.now_ms += 10
    assert timers.advance() == 1
    clock.now_ms += 100
    timers.advance()
    assert calls == ["early", "late"]
    assert len(timers) == 0


def test_delays_start_at_the_current_time_and_not_at_the_last_advance() -> None:
    clock = ManualClock(monotonic_ms=5_000)
    timers = timers_of(clock)
    clock.now_ms += 1_000
    entry = timers.schedule(5, lambda: None)
    assert entry.deadline_ms == 6_005


@pytest.mark.parametrize("delay", [0, -100])
def test_a_timer_without_delay_expires_at_the_next_advance(delay: int) -> None:
    clock = ManualClock(monotonic_ms=5_000)
    timers = timers_of(clock)
    calls: list[int] = []
    timers.schedule(delay, lambda: calls.append(1))
    assert calls == []
    clock.now_ms += 1
    timers.advance()
    assert calls == [1]


def test_a_failing_callback_is_logged_and_the_others_run(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(monotonic_ms=5_000)
    timers = timers_of(clock)
    calls: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError

    timers.schedule(1, fail)
    timers.schedule(2, lambda: calls.append(1))
    clock.now_ms += 5
    with caplog.at_level(logging.ERROR):
        assert timers.advance() == 2
    assert calls == [1]
    assert len(caplog.records) == 1


@on_both_loops
async def test_the_driver_wakes_for_each_timer_in_order() -> None:
    clock = SystemClock()
    timers = Timers(clock.monotonic_ms)
    driver = TimerDriver(timers)
    fired: list[tuple[int, int]] = []
    started = clock.monotonic_ms()

    def fire(delay: int) -> None:
        fired.append((delay, clock.monotonic_ms() - started))

    for delay in (60, 5, 30, 31, 1, 90):
        timers.schedule(delay, partial(fire, delay))
    await eventually(lambda: len(fired) == 6)
    assert [delay for delay, _ in fired] == [1, 5, 30, 31, 60, 90]
    assert all(elapsed >= delay for delay, elapsed in fired)
    driver.stop()


class CountingTimers(Timers):
    """Timers that count how often they were advanced."""

    advances = 0

    def advance(self) -> int:
        self.advances += 1
        return super().advance()


@on_both_loops
async def test_an_idle_driver_does_not_wake_up() -> None:
    timers = CountingTimers(SystemClock().monotonic_ms)
    driver = TimerDriver(timers)
    entry = timers.schedule(60_000, lambda: None)
    await remains(lambda: timers.advances == 0, 0.05)
    entry.cancel()
    driver.stop()
    timers.schedule(1, lambda: None)
    await remains(lambda: timers.advances == 0, 0.01)


@on_both_loops
async def test_timers_scheduled_by_callbacks_expire() -> None:
    timers = Timers(SystemClock().monotonic_ms)
    driver = TimerDriver(timers)
    count = 0

    def again() -> None:
        nonlocal count
        count += 1
        if count < 20:
            timers.schedule(1, again)

    timers.schedule(1, again)
    await eventually(lambda: count == 20)
    driver.stop()
