"""The timing wheel compared with a sorted list: cascades, order, and no work per idle tick."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidelog.broker.purgatory.timing_wheel import TimerEntry, TimingWheel


def is_pending(entry: TimerEntry) -> bool:
    """Return whether the timer is neither expired nor cancelled."""
    return entry._bucket is not None


def do_nothing() -> None:
    """Do nothing."""


class WheelAgainstSortedList(RuleBasedStateMachine):
    """Random timers in a wheel and in a plain list of (deadline, entry)."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 12_345
        self.tick_ms = 1
        self.wheel = TimingWheel(start_ms=self.now_ms)
        self.model: list[TimerEntry] = []

    @rule(
        delay=st.one_of(
            st.integers(-5, 60), st.integers(0, 10_000), st.integers(0, 10**7), st.sampled_from([400, 8_000])
        )
    )
    def add(self, delay: int) -> None:
        entry = self.wheel.add(self.now_ms + delay, do_nothing)
        assert is_pending(entry) == (delay > 0)
        if is_pending(entry):
            self.model.append(entry)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        entry = self.model.pop(data.draw(st.integers(0, len(self.model) - 1)))
        entry.cancel()
        entry.cancel()
        assert not is_pending(entry)

    @rule(step=st.one_of(st.integers(0, 3), st.integers(0, 50), st.integers(0, 9_000), st.integers(0, 10**7)))
    def advance(self, step: int) -> None:
        self.now_ms += step
        due = self.wheel.advance(self.now_ms)
        expected = sorted(
            (entry for entry in self.model if entry.deadline_ms <= self.now_ms),
            key=lambda entry: entry.deadline_ms,
        )
        assert [entry.deadline_ms for entry in due] == [entry.deadline_ms for entry in expected]
        assert set(due) == set(expected)
        assert not any(is_pending(entry) for entry in due)
        self.model = [entry for entry in self.model if entry.deadline_ms > self.now_ms]

    @rule()
    def advance_to_the_next_deadline(self) -> None:
        """Advance to the deadline that the wheel reports: no timer is missed or late."""
        next_ms = self.wheel.next_deadline_ms()
        if next_ms is not None:
            self.advance(max(0, next_ms - self.now_ms))

    @invariant()
    def the_next_deadline_is_not_later_than_the_first_timer(self) -> None:
        assert len(self.wheel) == len(self.model)
        next_ms = self.wheel.next_deadline_ms()
        if self.model:
            assert next_ms is not None
            assert next_ms <= min(entry.deadline_ms for entry in self.model)
            assert next_ms > self.now_ms
        else:
            assert next_ms is None


WheelAgainstSortedList.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestWheelAgainstSortedList = WheelAgainstSortedList.TestCase


@pytest.mark.parametrize("delay", [1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 160_000, 3_200_001, 10**9])
def test_a_timer_of_any_level_expires_in_its_exact_millisecond(delay: int) -> None:
    wheel = TimingWheel(start_ms=777)
    entry = wheel.add(777 + delay, do_nothing)
    assert wheel.advance(777 + delay - 1) == []
    assert is_pending(entry)
    assert wheel.advance(777 + delay) == [entry]


def test_a_timer_moves_down_through_the_wheels() -> None:
    wheel = TimingWheel()
    entry = wheel.add(8_567, do_nothing)
    hops = []
    while is_pending(entry):
        next_ms = wheel.next_deadline_ms()
        assert next_ms is not None
        hops.append(next_ms)
        wheel.advance(next_ms)
    assert hops == [8_000, 8_400, 8_560, 8_567]


def test_wheels_are_created_on_demand() -> None:
    wheel = TimingWheel()
    for deadline, levels in ((19, 1), (20, 2), (399, 2), (400, 3), (7_999, 3), (8_000, 4), (10**6, 5)):
        wheel.add(deadline, do_nothing)
        assert len(wheel._wheels) == levels


def test_time_advances_only_when_it_is_requested() -> None:
    wheel = TimingWheel(start_ms=100)
    wheel.add(150, do_nothing)
    assert wheel.now_ms == 100
    wheel.advance(120)
    assert wheel.now_ms == 120
    wheel.advance(90)
    assert wheel.now_ms == 120


def test_an_expired_timer_is_not_added() -> None:
    wheel = TimingWheel(start_ms=100)
    for deadline in (-5, 99, 100):
        assert not is_pending(wheel.add(deadline, do_nothing))
    assert len(wheel) == 0


def test_coarser_ticks_round_down_to_a_tick() -> None:
    wheel = TimingWheel(tick_ms=10, wheel_size=3, start_ms=105)
    entry = wheel.add(127, do_nothing)
    assert wheel.now_ms == 100
    assert wheel.advance(119) == []
    assert wheel.advance(120) == [entry]


def test_timers_of_one_millisecond_expire_in_order_of_addition() -> None:
    wheel = TimingWheel()
    entries = [wheel.add(5_000, do_nothing) for _ in range(100)]
    assert wheel.advance(5_000) == entries


def test_equal_deadlines_from_different_wheels_expire_in_order_of_addition() -> None:
    wheel = TimingWheel()
    from_above = wheel.add(20, do_nothing)
    wheel.advance(5)
    in_the_lowest = wheel.add(20, do_nothing)
    assert len(wheel._wheels) == 2
    assert wheel.advance(20) == [from_above, in_the_lowest]


def test_cancelled_timers_are_removed() -> None:
    wheel = TimingWheel()
    for round_ in range(100):
        for entry in [wheel.add(round_ * 30 + delay, do_nothing) for delay in range(1, 30_000, 7)]:
            entry.cancel()
        wheel.advance(round_ * 30)
    assert len(wheel) == 0
    assert wheel.next_deadline_ms() is None
    assert len(wheel._queue) == 0


def test_a_long_idle_time_is_advanced_without_iterating_over_ticks() -> None:
    wheel = TimingWheel()
    entry = wheel.add(100 * 365 * 86_400_000, do_nothing)
    steps = 0
    while is_pending(entry):
        next_ms = wheel.next_deadline_ms()
        assert next_ms is not None
        wheel.advance(next_ms)
        steps += 1
    assert steps <= len(wheel._wheels)
