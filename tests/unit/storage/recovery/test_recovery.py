"""Opening a log after a crash: truncation, rebuilt files, and errors."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.support.batches.old_messages import old_message
from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import DIRECTORY, append, append_marker, batch, open_log, values_of
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.batch_scan import CorruptLog, UnsupportedFormat
from tidelog.storage.segment.txn_index import AbortedTransaction
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


def filled_log(disk: CrashFileSystem, count: int = 12, **options: Any) -> PartitionLog:
    log = open_log(disk, SMALL)
    for index in range(count):
        append(log, f"{index:02}" + "x" * 50, timestamps=NOW_MS + index, **options)
    return log


def numbers(log: PartitionLog) -> list[int]:
    return [int(value[:2]) for value in values_of(log)]


def path_of(base_offset: int, kind: str) -> str:
    return f"{DIRECTORY}/{base_offset:020d}{kind}"


def truncate_file(disk: CrashFileSystem, path: str, size: int) -> None:
    disk.open(path, create=False).truncate(size)


def append_to(disk: CrashFileSystem, path: str, data: bytes) -> None:
    disk.open(path, create=False).append(data)


def test_a_truncated_tail_is_removed_after_the_last_complete_batch(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    active = log.segments.active
    starts = [position for position, _ in active.batches()]
    for size in range(active.size_bytes - 1, -1, -7):
        truncate_file(disk, active.file.path, size)
        reopened = open_log(disk, SMALL)
        whole = sum(1 for start in [*starts[1:], 10**9] if start <= size)
        assert reopened.log_end_offset == active.base_offset + whole
        assert numbers(reopened) == list(range(reopened.log_end_offset))
        check_log(reopened)


@pytest.mark.parametrize("zeros", [1, 11, 12, 61, 5_000])
def test_a_zero_filled_tail_is_removed(disk: CrashFileSystem, zeros: int) -> None:
    log = filled_log(disk)
    size_bytes = log.size_bytes
    append_to(disk, log.segments.active.file.path, bytes(zeros))
    reopened = open_log(disk, SMALL)
    assert (reopened.log_end_offset, reopened.size_bytes) == (12, size_bytes)


def test_a_flipped_bit_beyond_the_recovery_point_truncates_the_log_there(
    disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled_log(disk)
    second = log.segments.base_offsets[1]
    disk.flip_bit(path_of(second, ".log"), 80 * 8)
    with caplog.at_level(logging.WARNING):
        reopened = open_log(disk, SMALL, recovery_point=second)
    assert numbers(reopened) == list(range(second))
    assert f"{second:020d}.log: at byte 0" in caplog.text
    assert append(reopened, f"{second:02}") == second
    check_log(reopened)


def test_corruption_below_the_recovery_point_is_reported_without_truncation(
    disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled_log(disk)
    active = log.segments.active
    disk.flip_bit(active.file.path, 80 * 8)
    size_bytes = active.size_bytes
    with pytest.raises(CorruptLog, match=f"{active.base_offset:020d}.log: at byte 0"):
        open_log(disk, SMALL, recovery_point=12)
    assert "had been flushed" in caplog.text
    assert disk.size(active.file.path) == size_bytes


def test_a_segment_below_the_recovery_point_is_not_read_again(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    log.flush(NOW_MS)
    disk.flip_bit(path_of(0, ".log"), 80 * 8)
    assert open_log(disk, SMALL, recovery_point=12).log_end_offset == 12


def test_segments_after_the_corruption_are_removed(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    first, second = log.segments.base_offsets[:2]
    truncate_file(disk, path_of(first, ".log"), 100)
    reopened = open_log(disk, SMALL)
    assert reopened.segments.base_offsets == [0]
    assert not disk.exists(path_of(second, ".log"))
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".deleted")]


def test_a_missing_segment_ends_the_log_before_it(
    disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled_log(disk)
    second, third = log.segments.base_offsets[1:3]
    for kind in (".log", ".index", ".timeindex"):
        disk.unlink(path_of(second, kind))
    reopened = open_log(disk, SMALL)
    assert numbers(reopened) == list(range(second))
    assert f"starts at offset {third}, expected {second}:" in caplog.text


def test_a_gap_of_compaction_is_kept(disk: CrashFileSystem) -> None:
    config = replace(SMALL, cleanup_policy=("compact",))
    log = open_log(disk, config)
    log.append_as_follower(batch(["a"]), NOW_MS)
    log.roll(NOW_MS, 10)
    log.append_as_follower(batch(["b"], base_offset=10), NOW_MS)
    assert values_of(open_log(disk, config)) == ["a", "b"]


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_indexes_are_rebuilt_for_all_segments(
    disk: CrashFileSystem, kind: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled_log(disk)
    log.close(clean=True, now_ms=NOW_MS)
    before = {name: disk.read(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY)}
    disk.unlink(path_of(0, kind))
    reopened = open_log(disk, SMALL, recovery_point=12, clean=clean)
    check_log(reopened)
    assert disk.read(path_of(0, kind)) == before[f"{0:020d}{kind}"]
    assert f"{0:020d}{kind} is missing" in caplog.text


@pytest.mark.parametrize("damage", [b"\x00", b"\xff" * 8, b"\x7f\xff\xff\x00" + b"\x00" * 4])
@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
def test_corrupt_indexes_are_rebuilt(disk: CrashFileSystem, kind: str, damage: bytes) -> None:
    log = filled_log(disk)
    log.close(clean=True, now_ms=NOW_MS)
    for base_offset in log.segments.base_offsets[:-1]:
        file = disk.open(path_of(base_offset, kind), create=True)
        file.append(damage)
    reopened = open_log(disk, SMALL, recovery_point=12, clean=True)
    check_log(reopened)
    assert numbers(reopened) == list(range(12))


def test_an_index_beyond_the_log_is_rebuilt(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    log.close(clean=True, now_ms=NOW_MS)
    active = log.segments.active.base_offset
    append_to(disk, path_of(active, ".index"), b"\x00\x00\x00\x63\x00\x00\xff\xff")
    reopened = open_log(disk, SMALL, recovery_point=12, clean=True)
    check_log(reopened)
    assert reopened.log_end_offset == 12


def test_an_index_without_a_segment_is_removed(disk: CrashFileSystem) -> None:
    filled_log(disk).close(clean=True, now_ms=NOW_MS)
    disk.open(path_of(777, ".index"), create=True)
    open_log(disk, SMALL, clean=True)
    assert not disk.exists(path_of(777, ".index"))


def test_an_empty_segment_file_is_a_segment(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    log.roll(NOW_MS)
    assert open_log(disk, SMALL).segments.base_offsets == log.segments.base_offsets
    assert open_log(disk, SMALL, recovery_point=12).log_end_offset == 12


def test_transactions_and_their_index_are_rebuilt(disk: CrashFileSystem) -> None:
    log = open_log(disk, SMALL)
    for producer_id in (1, 2, 3):
        options: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        append(log, "t" * 60, is_transactional=True, **options)
    append_marker(log, 1, is_abort=True)
    append_marker(log, 2, is_abort=False)
    expected = log.aborted_transactions(0, 5)
    assert expected == [AbortedTransaction(1, 0, 3, 1)]
    for name in disk.listdir(DIRECTORY):
        if name.endswith((".txnindex", ".snapshot")):
            disk.unlink(f"{DIRECTORY}/{name}")
    reopened = open_log(disk, SMALL)
    reopened.advance_high_watermark(5)
    assert reopened.aborted_transactions(0, 5) == expected
    assert reopened.last_stable_offset == 2
    assert reopened.producers.producers.keys() == {1, 2, 3}


def test_recovery_starts_at_the_newest_producer_snapshot(disk: CrashFileSystem) -> None:
    log = filled_log(disk, producer_id=5, producer_epoch=0, base_sequence=0, count=1)
    log.roll(NOW_MS)
    log.flush(NOW_MS)
    disk.flip_bit(path_of(0, ".log"), 52 * 8)  # The producer's epoch, which the snapshot contains.
    reopened = open_log(disk, SMALL, recovery_point=1)
    assert reopened.producers.producers[5].producer_epoch == 0


def test_a_corrupt_producer_snapshot_is_rebuilt_from_the_log(disk: CrashFileSystem) -> None:
    log = filled_log(disk, count=1, producer_id=5, producer_epoch=0, base_sequence=0)
    log.roll(NOW_MS)
    append(log, "b")
    log.close(clean=True, now_ms=NOW_MS)
    for offset in (1, 2):
        disk.flip_bit(path_of(offset, ".snapshot"), 30 * 8)
    reopened = open_log(disk, SMALL, clean=True)
    assert reopened.producers.producers[5].last_sequence == 0


def test_epochs_beyond_the_log_end_are_removed_and_others_are_kept(disk: CrashFileSystem) -> None:
    log = open_log(disk)
    append(log, "a", leader_epoch=1)
    append(log, "b", leader_epoch=4)
    truncate_file(disk, path_of(0, ".log"), len(batch(["a"])) + 10)
    reopened = open_log(disk)
    assert reopened.leader_epochs.entries == [EpochEntry(1, 0)]
    assert disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n1 0\n"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [b"", b"rubbish", b"0\n1\n9"])
def test_a_corrupt_or_empty_epoch_checkpoint_is_rebuilt_from_the_log(
    disk: CrashFileSystem, content: bytes, clean: bool
) -> None:
    log = open_log(disk)
    append(log, "a", leader_epoch=1)
    append(log, "b", leader_epoch=4)
    log.close(clean=True, now_ms=NOW_MS)
    file = disk.open(f"{DIRECTORY}/leader-epoch-checkpoint", create=False)
    file.truncate(0)
    file.append(content)
    reopened = open_log(disk, clean=clean)
    assert reopened.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(4, 1)]


def test_a_log_that_ends_before_its_start_restarts_there(
    disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled_log(disk)
    second = log.segments.base_offsets[1]
    truncate_file(disk, path_of(second, ".log"), 10)
    reopened = open_log(disk, SMALL, log_start_offset=11)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (11, 11)
    assert reopened.segments.base_offsets == [11]
    assert f"ends at offset {second}, before its log start offset 11" in caplog.text
    assert append(reopened, "11") == 11


def test_missing_flushed_records_are_reported(
    disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled_log(disk)
    active = log.segments.active
    truncate_file(disk, active.file.path, 0)
    reopened = open_log(disk, SMALL, recovery_point=12)
    assert reopened.log_end_offset == active.base_offset
    assert f"ends at offset {active.base_offset}, though everything below 12 had been flushed" in caplog.text


def test_an_old_message_format_is_refused_and_never_truncated(disk: CrashFileSystem) -> None:
    filled_log(disk, count=1)
    append_to(disk, path_of(0, ".log"), old_message(1))
    size_bytes = disk.size(path_of(0, ".log"))
    with pytest.raises(UnsupportedFormat, match="format 1"):
        open_log(disk, SMALL)
    assert disk.size(path_of(0, ".log")) == size_bytes


def test_decreasing_offsets_are_corruption(disk: CrashFileSystem) -> None:
    filled_log(disk, count=2)
    append_to(disk, path_of(0, ".log"), bytes(batch(["again"], base_offset=1)))
    reopened = open_log(disk, SMALL)
    assert numbers(reopened) == [0, 1]


def test_a_log_start_beyond_unflushed_records_does_not_count_as_flushed(disk: CrashFileSystem) -> None:
    """Kafka raises the recovery point with the log start, though nothing was flushed."""
    filled_log(disk, count=4)
    disk.flip_bit(path_of(0, ".log"), 80 * 8)
    reopened = open_log(disk, SMALL, recovery_point=2, log_start_offset=2)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (2, 2)


@pytest.mark.parametrize("pieces", [1, 3, 200])
def test_recovery_can_be_repeated(disk: CrashFileSystem, pieces: int) -> None:
    log = filled_log(disk)
    append_to(disk, log.segments.active.file.path, b"\x01" * pieces)
    first = open_log(disk, SMALL)
    images = {name: disk.read(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY)}
    second = open_log(disk, SMALL)
    assert first.log_end_offset == second.log_end_offset == 12
    assert {name: disk.read(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY)} == images


def test_an_empty_time_index_of_another_crash_is_rebuilt(disk: CrashFileSystem) -> None:
    log = filled_log(disk)
    newest = log.segments.first.max_timestamp
    log.close(clean=True, now_ms=NOW_MS)
    disk.open(path_of(0, ".timeindex"), create=False).truncate(0)
    reopened = open_log(disk, SMALL, recovery_point=log.log_end_offset)
    assert reopened.segments.first.max_timestamp == newest
    check_log(reopened)
