"""Lookups by offset, timestamp and epoch in a log with gaps of compaction."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import COMPACTED, append_keyed, compact, keyed_batch, roll
from tests.support.logs.partition_logs import open_log
from tidelog.protocol.batch import read_header
from tidelog.protocol.steps import run_steps
from tidelog.storage.leader_epoch import EpochEndOffset
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def log() -> PartitionLog:
    """Return a log in which 4, 8 and 9 remain of offsets 0-9; epoch 0 up to 4, epoch 1 from 5 on."""
    log = open_log(CrashFileSystem(), COMPACTED)
    for offset, key in enumerate("aaaaabbbba"):
        data = keyed_batch([("x" if offset == 4 else key, f"{offset}")], timestamps=NOW_MS + offset)
        log.append_as_leader(data, 0 if offset < 5 else 1, NOW_MS)
        log.advance_high_watermark(log.log_end_offset)
        if offset in (2, 6):
            log.roll(NOW_MS)
    roll(log)
    compact(log)
    return log


@pytest.mark.parametrize(
    ("requested", "base_offset"), [*((offset, 4) for offset in range(5)), (5, 8), (7, 8), (8, 8), (9, 9)]
)
def test_a_read_in_a_gap_returns_the_next_batch(log: PartitionLog, requested: int, base_offset: int) -> None:
    for max_bytes in (1, 10_000):
        records = log.read(requested, max_bytes, at_least_one=True).records
        assert records is not None
        assert read_header(records.read()).base_offset == base_offset
    assert log.readable_bytes(requested, 10) == sum(
        header.size_bytes
        for s in log.segments
        for _, header in s.batches()
        if header.last_offset >= requested
    )


def test_a_read_with_its_upper_bound_in_a_gap_is_empty(log: PartitionLog) -> None:
    assert log.read(5, 1000, upper_bound=8).records is None or not log.read(5, 1000, upper_bound=8).records
    assert log.readable_bytes(5, 8) == 0


def test_a_timestamp_lookup_finds_the_first_remaining_record(log: PartitionLog) -> None:
    places = [run_steps(log.timestamps.first_record_from(NOW_MS + passed_ms)) for passed_ms in range(11)]
    assert [place and place.offset for place in places] == [4] * 5 + [8] * 4 + [9, None]
    newest = run_steps(log.timestamps.newest_record())
    assert newest is not None and newest.offset == 9


def test_epoch_end_offsets_are_unchanged(log: PartitionLog) -> None:
    assert log.leader_epochs.end_offset_for(0, log.log_end_offset) == EpochEndOffset(0, 5)
    assert log.leader_epochs.end_offset_for(1, log.log_end_offset) == EpochEndOffset(1, 10)


def test_appends_continue_at_the_log_end_after_everything_else_is_compacted(log: PartitionLog) -> None:
    assert append_keyed(log, ("a", "new"), timestamps=NOW_MS + 99) == 10
    assert log.log_start_offset == 0


def test_a_truncation_in_a_gap_ends_the_log_there(log: PartitionLog) -> None:
    log.truncate_to(6, below_high_watermark=True)
    assert log.log_end_offset == 6
    assert run_steps(log.timestamps.first_record_from(NOW_MS + 5)) is None
    log.append_as_leader(keyed_batch([("a", "new")]), 2, NOW_MS)
    records = log.read(5, 1000).records
    assert records is not None and read_header(records.read()).base_offset == 6
