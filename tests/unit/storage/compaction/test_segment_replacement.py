"""Segment replacement by compaction: power failures at every operation, and disk failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.disks.crash_points import CrashPoint, crash_points
from tests.support.logs.compaction import (
    COMPACTED,
    HASHER,
    append_keyed,
    compact,
    interleaved,
    keyed_batch,
    latest_of,
    read_log,
    roll,
    synced_late,
)
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import DIRECTORY, append_marker, open_log
from tidelog.protocol.batch import ATTRIBUTE_DELETE_HORIZON, read_header, write_header
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.steps import run_steps
from tidelog.storage.compaction.cleanable import find_cleanable
from tidelog.storage.compaction.cleaning import GroupCleaner, OffsetMapFiller
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.plan import open_cleaned, plan_cleaning
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL

CONFIG = replace(COMPACTED, index_interval_bytes=64)
EXPECTED = {b"a": (9, b"4"), b"b": (8, b"3"), b"c": (7, b"1"), b"t": (5, b"1")}


def fill(disk: CrashFileSystem) -> PartitionLog:
    """Append three sealed segments with transactions of both results across two of them."""
    log = open_log(disk, CONFIG)
    append_keyed(log, ("a", "1"), ("b", "1"))
    append_keyed(log, ("a", "x"), producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    roll(log)
    append_keyed(log, ("a", "2"))
    append_marker(log, 5, is_abort=True)
    append_keyed(log, ("t", "1"), producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True)
    roll(log)
    append_marker(log, 6, is_abort=False)
    append_keyed(log, ("c", "1"))
    append_keyed(log, ("b", "3"))
    roll(log)
    append_keyed(log, ("a", "4"))
    log.flush(0)
    return log


def test_no_crash_during_segment_replacement_loses_or_restores_a_record() -> None:
    def prepare(disk: CrashFileSystem) -> None:
        fill(disk).close(clean=True)

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        log = open_log(disk, CONFIG, clean=True)
        log.advance_high_watermark(log.log_end_offset)
        size_bytes = log.segments.first.size_bytes
        log.update_config(replace(CONFIG, segment_bytes=3 * size_bytes))
        compact(log, io_buffer_bytes=150)
        log.set_first_dirty_offset(None)
        compact(log, io_buffer_bytes=150)
        log.retention.delete_expired_files(10**15)

    crash_point_count = 0
    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(12)), skips_repeated=True):
        crash_point_count += 1
        check_recovery(point)
    assert crash_point_count > 200


def check_recovery(point: CrashPoint) -> None:
    """Open the log after a crash: it has all latest records, and can be compacted."""
    log = open_log(point.disk, CONFIG, recovery_point=9)
    log.advance_high_watermark(log.log_end_offset)
    assert log.log_end_offset == 10, point
    assert log.log_start_offset == 0, point
    assert latest_of(read_log(log, committed=True)) == EXPECTED, point
    assert log.producers.producers[5].last_sequence == 0, point
    assert log.producers.producers[6].last_sequence == 0, point
    names = point.disk.listdir(DIRECTORY)
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], point
    check_log(log)
    compact(log)
    assert latest_of(read_log(log, committed=True)) == EXPECTED, point
    log.close(clean=False)


@pytest.mark.parametrize("first", [0, 4, 8, 100])
def test_no_crash_loses_a_record_while_a_group_is_replaced_and_the_next_ones_are_written(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, segment_bytes=100)  # each segment is replaced by one

    def prepare(disk: CrashFileSystem) -> None:
        fill(disk).close(clean=True)

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        log = open_log(disk, config, clean=True)
        log.advance_high_watermark(log.log_end_offset)
        compact(log, interleave=interleaved(disk, first, monkeypatch))
        assert log.segments.base_offsets == [0, 3, 6, 9]

    crash_point_count = overlap_count = 0
    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(4)), skips_repeated=True):
        crash_point_count += 1
        suffixes = {name.rpartition(".")[2] for name in point.disk.listdir(DIRECTORY)}
        overlap_count += {"cleaned", "swap"} <= suffixes
        check_recovery(point)
    assert crash_point_count > 150 and overlap_count > 20


def fill_with_a_deleted_key(disk: CrashFileSystem) -> None:
    """Append a value and its tombstone in two segments; the tombstone has a delete horizon."""
    log = open_log(disk, CONFIG)
    append_keyed(log, ("a", "1"))
    roll(log)
    append_keyed(log, ("k", "deleted long ago"))
    roll(log)
    tombstone = keyed_batch([("k", None)])
    header = read_header(tombstone)
    attributes = header.attributes | ATTRIBUTE_DELETE_HORIZON
    write_header(tombstone, 0, header._replace(base_offset=2, attributes=attributes, base_timestamp=NOW_MS))
    log.append_as_follower(tombstone, NOW_MS)
    roll(log)
    append_keyed(log, ("b", "1"))
    roll(log)
    append_keyed(log, ("c", "1"))
    log.close(clean=True)


def test_no_crash_restores_a_key_whose_tombstone_was_removed_in_the_same_round() -> None:
    config = replace(CONFIG, segment_bytes=3 * 90)  # the first three become one, which ends with the first

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        log = open_log(disk, config, clean=True)
        log.advance_high_watermark(log.log_end_offset)
        compact(log)
        assert log.segments.base_offsets == [0, 3, 4]
        progress.append("compacted")

    key_presence: set[bool] = set()
    for point in crash_points(
        fill_with_a_deleted_key, workload, (*EVERY_SURVIVAL, *range(12)), skips_repeated=True
    ):
        log = open_log(point.disk, config, recovery_point=5)
        log.advance_high_watermark(log.log_end_offset)
        latest_values = latest_of(read_log(log))
        assert latest_values.get(b"k", (2, None)) == (2, None), point
        key_presence.add(b"k" in latest_values)
        log.close(clean=False)
    assert key_presence == {True, False}


def test_a_cleaned_file_of_a_deleted_log_does_not_make_later_replacements_incomplete() -> None:
    def prepare(disk: CrashFileSystem) -> None:
        fill(disk).close(clean=True)

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        log = open_log(disk, CONFIG, clean=True)
        log.advance_high_watermark(log.log_end_offset)
        log.update_config(replace(CONFIG, segment_bytes=100))  # each segment is replaced by one
        # The worker of a topic that was deleted has created it in the directory of the new topic.
        disk.open(f"{DIRECTORY}/{2:020d}.log.cleaned", create=True).close()
        compact(log, io_buffer_bytes=150)

    for point in crash_points(prepare, workload, EVERY_SURVIVAL, skips_repeated=True):
        log = open_log(point.disk, CONFIG, recovery_point=9)
        log.advance_high_watermark(log.log_end_offset)
        assert latest_of(read_log(log, committed=True)) == EXPECTED, point
        log.close(clean=False)


def test_a_full_disk_before_the_swap_leaves_the_log_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = CrashFileSystem()
    log = fill(disk)
    before = read_log(log)
    rename = disk.rename

    def without_room(old: str, new: str) -> None:
        if new.endswith(".index.swap"):
            raise OSError(28, "No space left on device", new)
        rename(old, new)

    monkeypatch.setattr(disk, "rename", without_room)
    with pytest.raises(KafkaError, match="No space"):
        compact(log)
    assert log.failure is None
    assert read_log(log) == before
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]
    monkeypatch.setattr(disk, "rename", rename)
    compact(log)
    assert latest_of(read_log(log, committed=True)) == EXPECTED


def test_a_missing_cleaned_segment_removes_nothing_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = CrashFileSystem()
    log = fill(disk)
    before = read_log(log)

    def open_and_unlink(*arguments: Any) -> LogSegment:
        cleaned = open_cleaned(*arguments)
        disk.unlink(cleaned.file.path)
        return cleaned

    monkeypatch.setattr("tests.support.logs.compaction.open_cleaned", open_and_unlink)
    with pytest.raises(KafkaError, match=r"\.log\.cleaned does not exist"):
        compact(log)
    assert log.failure is None
    assert read_log(log) == before
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("step", [".deleted", ".log"])
def test_a_disk_failure_during_the_swap_ends_writing(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = CrashFileSystem()
    log = fill(disk)
    rename = disk.rename

    def fail(old: str, new: str) -> None:
        if new.endswith(step):
            raise OSError(5, "Input/output error", new)
        rename(old, new)

    monkeypatch.setattr(disk, "rename", fail)
    with pytest.raises(StorageFailure):
        compact(log)
    assert log.failure is not None
    with pytest.raises(StorageFailure):
        append_keyed(log, ("a", "5"))
    monkeypatch.setattr(disk, "rename", rename)
    reopened = open_log(disk, CONFIG)
    reopened.advance_high_watermark(reopened.log_end_offset)
    assert latest_of(read_log(reopened, committed=True)) == EXPECTED


def test_a_truncation_lowers_the_compaction_checkpoint() -> None:
    log = fill(CrashFileSystem())
    compact(log)
    assert log.first_dirty_offset == 9
    log.truncate_to(7, below_high_watermark=True)
    assert log.first_dirty_offset == 7


def begin(log: PartitionLog, *, commits: bool) -> list[LogSegment]:
    """Begin to replace the sealed segments, and commit on request; return the replaced segments."""
    plan = run_steps(plan_cleaning(log, find_cleanable(log, NOW_MS), NOW_MS, 4096))
    offsets = OffsetMap(HASHER, 100, 200)
    end_offset = OffsetMapFiller(log.fs, plan.task, offsets, lambda size_bytes: None).fill()
    [group] = plan.groups(end_offset)
    cleaner = GroupCleaner(log.fs, plan.task, offsets, lambda size_bytes: None, synced_late)
    cleaner.clean(group)
    cleaner.sync()
    replaced = plan.segments_of(group)
    log.replacement.begin(open_cleaned(log, group), replaced)
    if commits:
        log.replacement.sync()
        assert log.replacement.commit(NOW_MS)
    return replaced


@pytest.mark.parametrize("commits", [False, True])
def test_no_crash_during_a_replacement_restores_truncated_records(commits: bool) -> None:
    def prepare(disk: CrashFileSystem) -> None:
        fill(disk).close(clean=True)

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        log = open_log(disk, CONFIG, clean=True)
        log.advance_high_watermark(log.log_end_offset)
        begin(log, commits=commits)
        log.truncate_to(9, below_high_watermark=True)
        progress.append("truncated")
        log.replacement.sync()
        assert not log.replacement.commit(NOW_MS)
        log.replacement.finish()

    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(12)), skips_repeated=True):
        log = open_log(point.disk, CONFIG, recovery_point=9)
        assert log.log_end_offset == 9 or (log.log_end_offset == 10 and not point.progress), point
        log.advance_high_watermark(log.log_end_offset)
        latest = latest_of(read_log(log, committed=True))
        expected = EXPECTED if log.log_end_offset == 10 else EXPECTED | {b"a": (3, b"2")}
        assert latest == expected, point
        check_log(log)
        log.close(clean=False)


@pytest.mark.parametrize("commits", [False, True])
def test_reads_during_a_replacement_return_the_latest_records(commits: bool) -> None:
    log = fill(CrashFileSystem())
    begin(log, commits=commits)
    assert latest_of(read_log(log, committed=True)) == EXPECTED
    assert len(log.segments) == (2 if commits else 4)
    append_keyed(log, ("d", "5"))
    assert latest_of(read_log(log, committed=True)) == EXPECTED | {b"d": (10, b"5")}


@pytest.mark.parametrize("commits", [False, True])
def test_retention_during_a_replacement_ends_it(commits: bool) -> None:
    disk = CrashFileSystem()
    log = fill(disk)
    begin(log, commits=commits)
    log.update_config(replace(CONFIG, cleanup_policy=("compact", "delete")))
    log.advance_log_start_offset(9)
    assert log.retention.apply(NOW_MS) == (1 if commits else 3)
    assert not log.replacement.commit(NOW_MS)
    log.replacement.finish()
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]
    assert latest_of(read_log(log)) == {b"a": (9, b"4")}


def test_a_clean_close_during_a_replacement_finishes_it() -> None:
    disk = CrashFileSystem()
    log = fill(disk)
    begin(log, commits=True)
    log.close(clean=True)
    names = disk.listdir(DIRECTORY)
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    reopened = open_log(disk, CONFIG, clean=True)
    reopened.advance_high_watermark(reopened.log_end_offset)
    assert latest_of(read_log(reopened, committed=True)) == EXPECTED


def test_a_partition_deleted_during_a_replacement_is_not_changed() -> None:
    disk = CrashFileSystem()
    log = fill(disk)
    begin(log, commits=True)
    log.retire()
    before = disk.listdir(DIRECTORY)
    log.replacement.finish()
    log.replacement.settle()
    assert disk.listdir(DIRECTORY) == before
