"""A log moves to another log directory with all its state, while it is read and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.log_checks import check_log
from tests.support.logs.log_managers import delete_logs, get_or_create_log, new_log_manager
from tests.support.logs.log_moves import begin_move, checkpoint_copy, complete_move, copy_all, copy_step
from tests.support.logs.partition_logs import TOPIC_PARTITION, all_records, append_marker, batch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import run_steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.future_log import REPLACEMENT_MARKER, SourceFailure
from tidelog.storage.directories.log_dir_description import describe_log_dir
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

TOPIC_ID = UUID(int=9)
CONFIG = log_config(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)


def manager_on(fs: FileSystem, root: str = "") -> LogManager:
    manager = new_log_manager(fs, [f"{root}/a", f"{root}/b"], CONFIG, new_id=uuid4)  # type: ignore[arg-type]
    manager.start(NOW_MS)
    return manager


def log_with_segments(manager: LogManager, batches: int = 12) -> PartitionLog:
    log = get_or_create_log(manager, TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
    append(log, batches)
    log.advance_high_watermark(log.log_end_offset)
    assert len(log.segments) > 2
    return log


def append(log: PartitionLog, batches: int, leader_epoch: int = 1) -> None:
    for index in range(batches):
        log.append_as_leader(batch([f"{log.log_end_offset} {index}" + "x" * 40]), leader_epoch, NOW_MS)


def target_of(log: PartitionLog, root: str = "") -> str:
    return f"{root}/b" if log.directory.startswith(f"{root}/a") else f"{root}/a"


def values(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in all_records(log)]


def test_a_moved_log_has_its_records_and_continues() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    before, source = values(log), log.directory
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    complete_move(move)
    assert log.directory == f"{move.target.path}/events-0"
    assert values(log) == before
    assert manager.get(TOPIC_PARTITION) is log
    assert not disk.exists(source)
    assert REPLACEMENT_MARKER not in disk.listdir(log.directory)
    append(log, 12)
    after = values(log)
    check_log(log)
    manager.shutdown(NOW_MS)
    reopened = manager_on(disk).get(TOPIC_PARTITION)
    assert reopened is not None
    assert values(reopened) == after
    assert reopened.topic_id == TOPIC_ID


def test_offsets_epochs_and_producers_move_with_the_log() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    producer: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True}
    log.append_as_leader(batch(["open"], base_sequence=0, **producer), 2, NOW_MS)
    append_marker(log, 5, is_abort=True, leader_epoch=2)
    log.append_as_leader(batch(["open again"], base_sequence=1, **producer), 3, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start_offset(4)
    log.set_first_dirty_offset(5)
    log.flush(NOW_MS)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    epochs, stable = log.leader_epochs.entries, log.last_stable_offset
    assert aborted
    complete_move(begin_move(manager, TOPIC_PARTITION, target_of(log)))
    for each in (log, log_after_crash(disk)):
        assert each.log_start_offset == 4
        assert each.first_dirty_offset == 5
        assert each.durability.recovery_point > 0
        assert each.leader_epochs.entries == epochs
        assert each.aborted_transactions(0, each.log_end_offset) == aborted
        assert each.last_stable_offset == stable
        assert each.producers.producers[5].last_sequence == 1


def log_after_crash(disk: CrashFileSystem) -> PartitionLog:
    """Return the log after a crash that loses all that is not durable."""
    log = manager_on(disk.crash(Survival.LOSE_UNSYNCED)).get(TOPIC_PARTITION)
    assert log is not None
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_records_that_are_appended_during_the_copy_are_in_the_copy() -> None:
    manager = manager_on(CrashFileSystem())
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    while copy_step(move):
        if log.log_end_offset < 40:
            append(log, 1)
    log.roll(NOW_MS)
    copy_all(move)
    checkpoint_copy(move)
    append(log, 2)
    assert move.future.can_replace
    before = values(log)
    move.replace()
    assert values(log) == before
    check_log(log)


def test_a_truncation_lets_the_copy_start_from_scratch() -> None:
    manager = manager_on(CrashFileSystem())
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    log.truncate_to(3, NOW_MS, below_high_watermark=True)
    assert not move.future.is_almost_complete
    append(log, 1, leader_epoch=7)
    before = values(log)
    complete_move(move)
    assert values(log) == before


def test_a_truncation_after_the_checkpoint_prevents_the_replacement() -> None:
    manager = manager_on(CrashFileSystem())
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    checkpoint_copy(move)
    log.truncate_to(log.log_end_offset - 1, NOW_MS, below_high_watermark=True)
    assert not move.future.can_replace
    copy_all(move)
    assert not move.future.can_replace, "the checkpoint is that of the log before the truncation"


def test_a_raised_log_start_after_the_checkpoint_prevents_the_replacement() -> None:
    """Deleted records would return after a crash."""
    manager = manager_on(CrashFileSystem())
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    checkpoint_copy(move)
    log.advance_log_start_offset(5)
    copy_all(move)
    assert not move.future.can_replace
    checkpoint_copy(move)
    assert move.future.can_replace


def test_segments_that_expire_during_the_copy_are_removed_from_the_copy() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    log.advance_log_start_offset(log.segments.base_offsets[2])
    assert log.retention.apply(NOW_MS) == 2
    assert not move.future.is_almost_complete
    complete_move(move)
    names = disk.listdir(log.directory)
    assert "00000000000000000000.log" not in names
    assert [name for name in names if name.endswith(".log")] == [
        f"{base:020d}.log" for base in log.segments.base_offsets
    ]


def test_a_released_slice_of_a_slow_reader_can_be_read_after_the_move(tmp_path: Path) -> None:
    fs = OsFileSystem()
    manager = manager_on(fs, str(tmp_path))
    log = log_with_segments(manager)
    log.flush(NOW_MS)
    records = log.read(0, 1 << 20).records
    assert records is not None
    data = records.read()
    records.release()
    complete_move(begin_move(manager, TOPIC_PARTITION, target_of(log, str(tmp_path))))
    assert records.read() == data
    append(log, 10)
    log.flush(NOW_MS)
    check_log(log)
    held = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if name_exists(name)}
    assert not [path for path in held if path.startswith(str(tmp_path)) and "-delete" in path]


def name_exists(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


def test_the_description_shows_the_copy_and_its_lag() -> None:
    manager = manager_on(CrashFileSystem())
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    [waiting] = run_steps(describe_log_dir(move.target)).partitions
    assert (waiting.is_future, waiting.size_bytes, waiting.offset_lag) == (True, 0, log.log_end_offset)
    copy_all(move)
    [copied] = run_steps(describe_log_dir(move.target)).partitions
    assert (copied.size_bytes, copied.offset_lag) == (log.size_bytes, 0)
    append(log, 1)
    [behind] = run_steps(describe_log_dir(move.target)).partitions
    assert behind.offset_lag == 1


def test_a_cancelled_move_leaves_nothing_in_the_target() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    checkpoint_copy(move)
    move.planned_removal()()
    assert not [name for name in disk.listdir(move.target.path) if disk.is_dir(f"{move.target.path}/{name}")]
    assert run_steps(describe_log_dir(move.target)).partitions == []
    append(log, 1)
    check_log(log)


def test_an_interrupted_copy_is_started_again_in_the_same_directory() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    for _ in range(3):
        copy_step(move)
    before = values(log)
    manager.shutdown(NOW_MS)
    restarted = manager_on(disk)
    [target] = [each for each in restarted.directories if each.moves.interrupted]
    assert target.moves.interrupted == {TOPIC_PARTITION: move.future.directory}
    again = begin_move(restarted, TOPIC_PARTITION, target.path)
    assert again.future.directory == move.future.directory
    complete_move(again)
    assert values(again.log) == before


def test_the_source_keeps_its_checkpoints_until_its_files_are_removed() -> None:
    """After a crash that loses the new name, the old files are used again, with their log start."""
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    log.advance_log_start_offset(5)
    manager.directories[0].checkpoints.write(CheckpointKind.LOG_START_OFFSET)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    checkpoint_copy(move)
    move.replace()
    checkpoints = move.source.checkpoints
    checkpoints.write(CheckpointKind.LOG_START_OFFSET)
    assert checkpoints.offset(CheckpointKind.LOG_START_OFFSET, TOPIC_PARTITION) == 5
    log.flush(NOW_MS)
    retirement = move.planned_retirement(NOW_MS)
    retirement.run()
    move.on_retired(retirement)
    assert checkpoints.offset(CheckpointKind.LOG_START_OFFSET, TOPIC_PARTITION) == 0


def test_a_log_is_not_created_where_its_old_files_remain() -> None:
    manager = manager_on(CrashFileSystem())
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    checkpoint_copy(move)
    move.replace()
    delete_logs(manager, [TOPIC_PARTITION], NOW_MS)
    manager.prefer(TOPIC_PARTITION, move.source.path)
    created = get_or_create_log(manager, TOPIC_PARTITION, UUID(int=10), CONFIG, NOW_MS)
    assert created.directory.startswith(move.target.path)


def test_if_the_target_fails_before_the_flush_the_old_files_are_kept_as_a_stray() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    copy_all(move)
    checkpoint_copy(move)
    move.replace()
    manager.directories.take_offline(move.target, "a test")
    retirement = move.planned_retirement(NOW_MS)
    retirement.run()
    move.on_retired(retirement)
    [name] = [name for name in disk.listdir(move.source.path) if disk.is_dir(f"{move.source.path}/{name}")]
    assert name.endswith("-stray")


def test_a_partition_is_created_in_the_preferred_directory() -> None:
    manager = manager_on(CrashFileSystem())
    for path in ("/b", "/a"):
        key = TOPIC_PARTITION._replace(topic=path[1:])
        manager.prefer(key, path)
        assert get_or_create_log(manager, key, TOPIC_ID, CONFIG, NOW_MS).directory.startswith(path)


def test_a_log_that_cannot_be_read_is_a_failure_of_the_source() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    assert copy_step(move)
    while (step := move.future.next_step()) is not None and not step.size_bytes:
        step.run()
        step.on_done()
    assert step is not None
    disk.open(log.segments.first.file.path, create=False).truncate(10)
    with pytest.raises(SourceFailure, match="bytes before"):
        step.run()


def test_an_offline_target_is_described_without_the_copy() -> None:
    manager = manager_on(CrashFileSystem())
    log = log_with_segments(manager)
    move = begin_move(manager, TOPIC_PARTITION, target_of(log))
    manager.directories.take_offline(move.target, "a test")
    assert not move.is_possible
    description = run_steps(describe_log_dir(move.target))
    assert (description.error_code, description.partitions) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
