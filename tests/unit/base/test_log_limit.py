"""Log lines that others can cause are bounded, and none is forgotten."""

from __future__ import annotations

import logging

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tidelog.base.log_limit import LINES_MAX, PERIOD_MS, LogLimit

logger = logging.getLogger("tidelog.tests.log_limit")


def test_so_many_lines_of_a_kind_are_logged_and_the_number_of_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    limit = LogLimit(clock.monotonic_ms)
    with caplog.at_level(logging.INFO):
        for number in range(1_000):
            limit.log(logger, logging.WARNING, "bad connection %d", number, extra={"peer": number})
        assert [record.getMessage() for record in caplog.records] == [
            f"bad connection {number}" for number in range(LINES_MAX)
        ]
        limit.report()
        assert len(caplog.records) == LINES_MAX
        clock.now_ms += PERIOD_MS
        limit.report()
        limit.report()
    assert len(caplog.records) == LINES_MAX + 1
    last = caplog.records[-1]
    assert (last.levelno, last.getMessage()) == (
        logging.WARNING,
        "990 more messages were suppressed in the last 10 s, of the kind: bad connection %d",
    )


def test_kinds_do_not_count_for_each_other(caplog: pytest.LogCaptureFixture) -> None:
    limit = LogLimit(ManualClock().monotonic_ms)
    for number in range(50):
        limit.log(logger, logging.WARNING, "one %d", number)
    limit.log(logger, logging.ERROR, "other", error=ValueError("why"))
    assert caplog.records[-1].getMessage() == "other"
    assert caplog.records[-1].exc_info is not None


def test_the_first_line_of_a_new_period_comes_behind_the_number_of_those_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    limit = LogLimit(clock.monotonic_ms)
    for number in range(LINES_MAX + 5):
        limit.log(logger, logging.WARNING, "one %d", number)
    clock.now_ms += 2 * PERIOD_MS
    limit.log(logger, logging.WARNING, "one %d", 99)
    assert [record.getMessage() for record in caplog.records[-2:]] == [
        "5 more messages were suppressed in the last 20 s, of the kind: one %d",
        "one 99",
    ]
