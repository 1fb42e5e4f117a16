"""The plan of a round of compaction."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import COMPACTED, append_keyed, roll
from tests.support.logs.partition_logs import open_log
from tidelog.protocol.steps import Steps, run_steps
from tidelog.storage.compaction.cleanable import find_cleanable
from tidelog.storage.compaction.plan import CleaningPlan, is_current, plan_cleaning
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> PartitionLog:
    """Return a log with five producers, of which two are read at once."""
    monkeypatch.setattr("tidelog.storage.compaction.plan.PRODUCERS_PER_STEP", 2)
    log = open_log(CrashFileSystem(), COMPACTED)
    for producer_id in range(5):
        append_keyed(log, ("a", "x"), producer_id=producer_id, producer_epoch=3, base_sequence=0)
    roll(log)
    return log


def plan(log: PartitionLog) -> Steps[CleaningPlan]:
    return plan_cleaning(log, find_cleanable(log, NOW_MS), NOW_MS, 4096)


def test_the_producers_of_a_log_with_very_many_are_read_in_steps(log: PartitionLog) -> None:
    steps = plan(log)
    assert [next(steps), next(steps)] == [None, None]
    # A producer that is new between two steps.
    append_keyed(log, ("a", "y"), producer_id=9, producer_epoch=0, base_sequence=0)
    task = run_steps(steps).task
    assert task.last_records == {producer_id: (producer_id, 3) for producer_id in range(5)}


def test_a_truncation_between_the_steps_of_a_plan_makes_it_invalid(log: PartitionLog) -> None:
    steps = plan(log)
    next(steps)
    log.truncate_to(1, below_high_watermark=True)
    assert not is_current(log, run_steps(steps))
