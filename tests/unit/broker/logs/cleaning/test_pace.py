"""A cleaner rests for the event loop, keeps to its rate, and ends when nobody wants it any more."""

from __future__ import annotations

from threading import Event

import pytest

from tidelog.broker.logs.cleaning.pace import PAUSE_S, WORK_NS, CleanerPace, CleaningAborted


class WorkClock:
    """A clock that goes on by what a test says was worked, and by how long the cleaner rests."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.rests: list[float] = []

    def wall_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return self.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


class RestingEvent(Event):
    """Notes how long is waited for it, and lets the clock go on by that."""

    def __init__(self, clock: WorkClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._clock.rests.append(timeout)
        self._clock.now_ns += int(timeout * 1e9)
        return self.is_set()


def test_a_rest_comes_after_each_slice_of_work() -> None:
    clock = WorkClock()
    pace = CleanerPace(clock, RestingEvent(clock), lambda: True, 1e308)
    for _ in range(10):
        clock.now_ns += WORK_NS // 5
        pace(1_000_000)
    assert clock.rests == [PAUSE_S, PAUSE_S]


def test_the_rate_is_kept_over_the_whole_round() -> None:
    clock = WorkClock()
    pace = CleanerPace(clock, RestingEvent(clock), lambda: True, 1_000_000)
    for _ in range(100):
        clock.now_ns += WORK_NS
        pace(10_000)
    assert clock.now_ns == pytest.approx(1e9, rel=0.02)


@pytest.mark.parametrize("reason", ["stop", "not wanted"])
def test_work_that_nobody_wants_ends(reason: str) -> None:
    clock = WorkClock()
    stopping = RestingEvent(clock)
    pace = CleanerPace(clock, stopping, lambda: reason == "stop", 1e308)
    if reason == "stop":
        stopping.set()
    clock.now_ns += WORK_NS
    with pytest.raises(CleaningAborted):
        pace(1)
