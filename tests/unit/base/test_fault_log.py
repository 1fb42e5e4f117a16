"""A lasting fault is logged when it begins and ends, and counted in between."""

from __future__ import annotations

import logging

import pytest

from tidelog.base.fault_log import FaultLog

logger = logging.getLogger("tidelog.tests.fault_log")


@pytest.fixture
def faults(caplog: pytest.LogCaptureFixture) -> FaultLog:
    caplog.set_level(logging.INFO)
    return FaultLog(logger, "disk /data")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    log_lines = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    caplog.clear()
    return log_lines


def test_a_repeated_fault_is_logged_once_and_its_end_with_the_count(
    faults: FaultLog, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        faults.record_failure(logging.ERROR, f"append {number} failed")
    assert lines(caplog) == ["ERROR disk /data: append 0 failed"]
    faults.report()
    assert lines(caplog) == ["ERROR disk /data: 99 more failures, the last: append 99 failed"]
    faults.report()
    assert lines(caplog) == ["INFO disk /data: no more failures after 100"]
    faults.report()
    assert lines(caplog) == []
    faults.record_failure(logging.WARNING, "another fault")
    assert lines(caplog) == ["WARNING disk /data: another fault"]


def test_the_end_of_a_fault_is_not_logged_twice(faults: FaultLog, caplog: pytest.LogCaptureFixture) -> None:
    faults.record_failure(logging.ERROR, "append failed")
    faults.record_failure(logging.ERROR, "append failed")
    faults.forget()
    lines(caplog)
    faults.report()
    assert lines(caplog) == []
