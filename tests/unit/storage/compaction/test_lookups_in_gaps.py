"""Reading by offset, by time and by epoch in a log with the gaps that compaction leaves."""

from __future__ import annotations

import pytest

from tests.support.disks.crash_file_system import CrashFileSystem
from tests.support.logs.compaction import COMPACTED, append_keyed, compact, keyed_batch, roll
from tests.support.logs.partition_logs import NOW_MS, open_log
from tidelog.protocol.batch import read_header
from tidelog.protocol.steps import completed
from tidelog.storage.leader_epoch import EpochEndOffset
from tidelog.storage.log.partition_log import PartitionLog


@pytest.fixture
def log() -> PartitionLog:
    """Offsets 0 to 9 of which 4, 8 and 9 are left; epoch 0 up to 4, epoch 1 from 5 on."""
    made = open_log(CrashFileSystem(), COMPACTED)
    for offset, key in enumerate("aaaaabbbba"):
        data = keyed_batch([("x" if offset == 4 else key, f"{offset}")], timestamps=NOW_MS + offset)
        made.append_as_leader(data, 0 if offset < 5 else 1, NOW_MS)
        made.advance_high_watermark(made.log_end_offset)
        if offset in (2, 6):
            made.roll(NOW_MS)
    roll(made)
    compact(made)
    return made


@pytest.mark.parametrize(
    ("asked", "found"), [*((offset, 4) for offset in range(5)), (5, 8), (7, 8), (8, 8), (9, 9)]
)
def test_a_read_gets_the_next_batch_that_is_there(log: PartitionLog, asked: int, found: int) -> None:
    for max_bytes in (1, 10_000):
        records = log.read(asked, max_bytes, at_least_one=True).records
        assert records is not None
        assert read_header(records.read()).base_offset == found
    assert log.readable_bytes(asked, 10) == sum(
        header.size_bytes for s in log.segments for _, header in s.batches() if header.last_offset >= asked
    )


def test_a_read_below_an_upper_bound_in_a_gap_finds_nothing(log: PartitionLog) -> None:
    assert log.read(5, 1000, upper_bound=8).records is None or not log.read(5, 1000, upper_bound=8).records
    assert log.readable_bytes(5, 8) == 0


def test_a_look_up_by_time_finds_the_first_record_that_is_left(log: PartitionLog) -> None:
    found = [completed(log.timestamps.first_record_from(NOW_MS + passed_ms)) for passed_ms in range(11)]
    assert [place and place.offset for place in found] == [4] * 5 + [8] * 4 + [9, None]
    newest = completed(log.timestamps.newest_record())
    assert newest is not None and newest.offset == 9


def test_epochs_end_where_they_did(log: PartitionLog) -> None:
    assert log.leader_epochs.end_offset_for(0, log.log_end_offset) == EpochEndOffset(0, 5)
    assert log.leader_epochs.end_offset_for(1, log.log_end_offset) == EpochEndOffset(1, 10)


def test_appends_continue_at_the_log_end_when_all_but_the_end_is_compacted_away(log: PartitionLog) -> None:
    assert append_keyed(log, ("a", "new"), timestamps=NOW_MS + 99) == 10
    assert log.log_start_offset == 0


def test_a_cut_in_a_gap_ends_the_log_there(log: PartitionLog) -> None:
    log.truncate_to(6, below_high_watermark=True)
    assert log.log_end_offset == 6
    assert completed(log.timestamps.first_record_from(NOW_MS + 5)) is None
    log.append_as_leader(keyed_batch([("a", "new")]), 2, NOW_MS)
    records = log.read(5, 1000).records
    assert records is not None and read_header(records.read()).base_offset == 6
