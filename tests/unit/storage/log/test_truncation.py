"""Truncation of a log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import DIRECTORY, append, append_marker, batch, open_log, values_of
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


def filled_log(disk: CrashFileSystem, count: int = 12) -> PartitionLog:
    """Return a log whose records are not replicated."""
    log = open_log(disk, SMALL)
    for index in range(count):
        log.append_as_leader(batch([f"{index:02}" + "x" * 50]), index // 4, NOW_MS)
    return log


def numbers(log: PartitionLog) -> list[int]:
    return [int(value[:2]) for value in values_of(log)]


@pytest.mark.parametrize("offset", range(13))
def test_records_at_or_above_the_offset_are_removed(disk: CrashFileSystem, offset: int) -> None:
    log = filled_log(disk)
    assert log.truncate_to(offset) is (offset < 12)
    assert log.log_end_offset == offset
    assert numbers(log) == list(range(offset))
    assert [entry for entry in log.leader_epochs.entries if entry.start_offset >= max(offset, 1)] == []
    check_log(log)
    log.append_as_leader(batch([f"{offset:02}"]), 9, NOW_MS)
    assert numbers(open_log(disk, SMALL)) == list(range(offset + 1))


def test_a_batch_that_contains_the_offset_is_removed(disk: CrashFileSystem) -> None:
    log = open_log(disk)
    log.append_as_leader(batch(["a", "b"]), 0, NOW_MS)
    log.append_as_leader(batch(["c", "d", "e"]), 0, NOW_MS)
    log.flush(NOW_MS)
    log.truncate_to(4)
    assert (log.log_end_offset, log.durability.recovery_point) == (2, 2)
    assert values_of(log) == ["a", "b"]


def test_truncation_below_the_high_watermark_must_be_requested(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    log.advance_high_watermark(6)
    with pytest.raises(KafkaError, match="its high watermark is 6"):
        log.truncate_to(5)
    assert log.log_end_offset == 12
    assert log.truncate_to(5, below_high_watermark=True)
    assert (log.high_watermark, log.log_end_offset) == (5, 5)
    log.truncate_to(5)


def test_truncation_beyond_the_log_end_removes_only_epochs_without_records(disk: CrashFileSystem) -> None:
    log = filled_log(disk, count=2)
    log.epoch_file.note(7, 2)
    assert not log.truncate_to(99)
    assert log.leader_epochs.entries == [EpochEntry(0, 0)]
    assert disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_truncation_below_the_first_segment_restarts_the_log(disk: CrashFileSystem) -> None:
    log = open_log(disk, log_start_offset=100)
    append(log, "a")
    assert log.truncate_to(40, below_high_watermark=True)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (40, 40, 40)
    assert append(log, "b") == 40


def test_a_log_can_be_restarted_at_any_offset(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    for offset in (500, 0, 7):
        log.truncate_fully_and_start_at(offset, NOW_MS)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (offset, offset, offset)
        assert log.leader_epochs.entries == []
        assert not log.producers.producers
        assert append(log, str(offset)) == offset
        check_log(log)
        assert values_of(open_log(disk, SMALL, log_start_offset=offset)) == [str(offset)]


def test_producer_and_transaction_state_is_truncated(disk: CrashFileSystem) -> None:
    log = open_log(disk, SMALL)
    options: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "is_transactional": True}
    append(log, "a" * 60, base_sequence=0, **options)
    append_marker(log, 1, is_abort=True)
    append(log, "b" * 60, base_sequence=1, **options)
    log.roll(NOW_MS)
    append(log, "c" * 60, base_sequence=2, **options)
    log.truncate_to(2, below_high_watermark=True)
    entry = log.producers.producers[1]
    assert (entry.last_sequence, entry.transaction_first_offset) == (0, None)
    assert log.last_stable_offset == 2
    assert len(log.aborted_transactions(0, 2)) == 1
    log.truncate_to(1, below_high_watermark=True)
    assert log.aborted_transactions(0, 1) == []
    assert log.last_stable_offset == 0
    append(log, "b", base_sequence=1, **options)


def test_a_flush_planned_before_a_truncation_does_not_advance_the_recovery_point(
    disk: CrashFileSystem,
) -> None:
    log = filled_log(disk)
    plan = log.durability.flush_plan()
    plan.run()
    log.truncate_to(3)
    log.durability.flushed(plan, NOW_MS)
    assert log.durability.recovery_point == 0
    log.flush(NOW_MS)
    assert log.durability.recovery_point == 3


def test_a_failed_truncation_stops_the_log(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    disk.fail_next_fsync(".log")
    with pytest.raises(KafkaError) as caught:
        log.truncate_to(3)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    with pytest.raises(KafkaError):
        append(log, "x")
