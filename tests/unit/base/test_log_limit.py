"""Log lines caused by peers are limited, and suppressed ones are counted."""

from __future__ import annotations

import logging

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tidelog.base.log_limit import LINES_MAX, PERIOD_MS, LogLimit

logger = logging.getLogger("tidelog.tests.log_limit")


def test_lines_above_the_limit_are_counted_and_not_logged(
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


def test_each_kind_of_line_has_its_own_limit(caplog: pytest.LogCaptureFixture) -> None:
    limit = LogLimit(ManualClock().monotonic_ms)
    for number in range(50):
        limit.log(logger, logging.WARNING, "one %d", number)
    limit.log(logger, logging.ERROR, "other", error=ValueError("why"))
    assert caplog.records[-1].getMessage() == "other"
    assert caplog.records[-1].exc_info is not None


def test_the_number_of_suppressed_lines_is_logged_before_the_next_line(
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
