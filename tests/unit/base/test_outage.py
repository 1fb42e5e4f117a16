"""An outage has one line at its beginning, one at its end, and increasing delays between attempts."""

from __future__ import annotations

import logging
from random import Random

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.outage import REPEATED_AFTER_MS, Outage


def create_outage(clock: ManualClock, jitter: float = 0.0) -> Outage:
    return Outage("Copying", clock, Random(1), ExponentialBackoff(500, 300_000, jitter))


def test_an_outage_has_one_warning_and_one_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    outage = create_outage(clock)
    outage.on_success()
    for _ in range(12):
        outage.on_failure("AccessDenied (HTTP 403)")
        clock.now_ms += 5000
    outage.on_success()
    outage.on_success()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "Copying fails: AccessDenied (HTTP 403); retrying with increasing delays, up to 300 s"),
        ("INFO", "Copying works again after 60 s and 12 failed attempts"),
    ]


def test_a_long_outage_is_repeated_with_its_number_of_failures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock(monotonic_ms=REPEATED_AFTER_MS * 7)
    outage = create_outage(clock)
    for _ in range(25):
        outage.on_failure("no route")
        clock.now_ms += REPEATED_AFTER_MS // 10
    repeated = [record.getMessage() for record in caplog.records[1:]]
    assert repeated == [f"Copying still fails after {count} attempts: no route" for count in (11, 21)]
    status = outage.status
    assert status is not None and (status.failures, status.cause) == (25, "no route")


def test_one_attempt_is_allowed_after_each_delay() -> None:
    clock = ManualClock()
    outage = create_outage(clock)
    assert outage.allows_attempt() and outage.allows_attempt()
    allowed_after_ms = []
    for _ in range(12):
        outage.on_failure("reset")
        start_ms = clock.now_ms
        while not outage.allows_attempt():
            clock.now_ms += 250
        assert not outage.allows_attempt()  # another caller waits for the outcome of this attempt
        allowed_after_ms.append(clock.now_ms - start_ms)
    assert allowed_after_ms[:4] == [500, 1000, 2000, 4000]
    assert max(allowed_after_ms) == 300_000
    outage.on_success()
    assert outage.allows_attempt()


def test_delays_have_jitter() -> None:
    clock = ManualClock()
    delays = set()
    outage = create_outage(clock, jitter=0.2)
    for _ in range(20):
        outage.on_failure("reset")
        start_ms = clock.now_ms
        while not outage.allows_attempt():
            clock.now_ms += 10
        delays.add(clock.now_ms - start_ms)
    assert len(delays) > 15
    assert max(delays) <= 360_000
