"""Which logged errors show a defect."""

from __future__ import annotations

import logging

import pytest

from tidelog.testing.simulation.crash_file_system import SimulatedCrash
from tidelog.testing.simulation.log_lines import LogLines
from tidelog.testing.simulation.scheduler import Scheduler

LOGGER = logging.getLogger("tidelog.tests")


@pytest.mark.parametrize(("cause", "is_defect"), [(ValueError("7"), True), (SimulatedCrash("fsync"), False)])
def test_an_error_in_the_code_after_the_crash_of_its_disk_is_no_defect(
    cause: BaseException, is_defect: bool
) -> None:
    lines = LogLines(Scheduler(1))
    with lines.collected():
        try:
            try:
                raise cause
            finally:
                raise AssertionError("another change is not complete")
        except AssertionError:
            LOGGER.exception("Cannot compact tides-0")
    assert bool(lines.errors) is is_defect
