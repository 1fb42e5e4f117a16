"""The gauge of stalls of the event loop."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.waiting import eventually, remains
from tidelog.broker.observability.loop_stalls import INTERVAL_S, LoopStalls

STALL_MS = 500


@on_both_loops
async def test_a_callback_that_blocks_the_event_loop_is_reported_with_its_duration() -> None:
    clock = ManualClock()
    stalls = LoopStalls(clock)
    stalls.start()
    assert stalls.longest_s == 0
    clock.now_ms += STALL_MS
    await eventually(lambda: stalls.longest_s)
    assert stalls.longest_s == pytest.approx(STALL_MS / 1000 - INTERVAL_S)
    stalls.stop()


@on_both_loops
async def test_a_stall_is_reported_for_at_least_one_window() -> None:
    clock = ManualClock()
    stalls = LoopStalls(clock)
    stalls.start()
    clock.now_ms += STALL_MS
    await eventually(lambda: stalls.longest_s)
    first = stalls.longest_s
    stalls.begin_window()
    assert stalls.longest_s == first
    stalls.begin_window()
    assert stalls.longest_s == 0
    stalls.stop()


@on_both_loops
async def test_nothing_is_measured_after_stop() -> None:
    clock = ManualClock()
    stalls = LoopStalls(clock)
    stalls.start()
    stalls.stop()
    clock.now_ms += STALL_MS
    await remains(lambda: stalls.longest_s == 0, 2 * INTERVAL_S)
