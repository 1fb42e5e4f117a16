"""The pace of a cleaner: pauses for the event loop, its rate, and cancellation."""

from __future__ import annotations

from threading import Event

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tidelog.broker.logs.cleaning.pace import PAUSE_S, WORK_NS, CleanerPace, CleaningAborted


class RestingEvent(Event):
    """Records each timeout of a wait, and advances the clock by it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.rests: list[float] = []
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.rests.append(timeout)
        self._clock.advance_ns(int(timeout * 1e9))
        return self.is_set()


def test_each_slice_of_work_is_followed_by_a_pause() -> None:
    clock = ManualClock()
    stopping = RestingEvent(clock)
    pace = CleanerPace(clock, stopping, lambda: True, 1e308)
    for _ in range(10):
        clock.advance_ns(WORK_NS // 5)
        pace(1_000_000)
    assert stopping.rests == [PAUSE_S, PAUSE_S]


def test_the_rate_applies_to_the_whole_round() -> None:
    clock = ManualClock()
    pace = CleanerPace(clock, RestingEvent(clock), lambda: True, 1_000_000)
    for _ in range(100):
        clock.advance_ns(WORK_NS)
        pace(10_000)
    assert clock.monotonic_ns() == pytest.approx(1e9, rel=0.02)


@pytest.mark.parametrize("reason", ["stop", "not wanted"])
def test_cancelled_work_ends(reason: str) -> None:
    clock = ManualClock()
    stopping = RestingEvent(clock)
    pace = CleanerPace(clock, stopping, lambda: reason == "stop", 1e308)
    if reason == "stop":
        stopping.set()
    clock.advance_ns(WORK_NS)
    with pytest.raises(CleaningAborted):
        pace(1)
