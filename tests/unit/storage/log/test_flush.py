"""Flushing a log in another thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import DIRECTORY, append, open_log, values_of
from tests.support.waiting import TIMEOUT_S
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


def test_flushed_records_survive_a_crash_and_others_may_be_lost() -> None:
    disk = CrashFileSystem()
    disk.makedirs("/data")
    disk.sync_all()
    log = open_log(disk, SMALL)
    for _ in range(8):
        append(log, "x" * 60)
    plan = log.durability.flush_plan()
    plan.run()
    append(log, "later")
    log.durability.flushed(plan, NOW_MS)
    assert log.durability.recovery_point == 8
    after = open_log(disk.crash(Survival.LOSE_UNSYNCED), SMALL, recovery_point=8)
    assert values_of(after) == ["x" * 60] * 8


def test_a_plan_covers_every_segment_from_the_recovery_point() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    for _ in range(8):
        append(log, "x" * 60)
    log_and_two_indexes = 3
    assert len(log.durability.flush_plan().files) == log_and_two_indexes * len(log.segments)
    log.flush(NOW_MS)
    append(log, "x")
    assert len(log.durability.flush_plan().files) == 2, "the log, and the index that got an entry"


def test_only_directories_with_new_files_are_synced() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    append(log, "x")
    assert log.durability.flush_plan().directories == (DIRECTORY, "/data")
    log.flush(NOW_MS)
    append(log, "x")
    assert log.durability.flush_plan().directories == ()
    log.roll(NOW_MS)
    assert log.durability.flush_plan().directories == (DIRECTORY,)


def test_snapshots_written_at_a_roll_are_synced_once() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    append(log, "x", producer_id=1, producer_epoch=0, base_sequence=0)
    log.roll(NOW_MS)
    assert [path.rpartition("/")[2] for path in log.durability.flush_plan().paths] == [f"{1:020d}.snapshot"]
    log.flush(NOW_MS)
    assert log.durability.flush_plan().paths == ()


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({}, False),
        ({"flush_messages": 3}, True),
        ({"flush_messages": 4}, False),
        ({"flush_ms": 500}, True),
        ({"flush_ms": 501}, False),
    ],
)
def test_flush_messages_and_flush_ms_trigger_a_flush(settings: dict[str, Any], needed: bool) -> None:
    log = open_log(CrashFileSystem(), log_config(**settings))
    assert not log.durability.needs_flush(NOW_MS + 10_000)
    for _ in range(3):
        append(log, "x")
    assert log.durability.needs_flush(NOW_MS + 500) is needed
    log.flush(NOW_MS + 500)
    assert not log.durability.needs_flush(NOW_MS + 10_000)


def test_a_sealed_segment_waits_to_be_flushed() -> None:
    log = open_log(CrashFileSystem())
    append(log, "x")
    log.roll(NOW_MS)
    append(log, "y")
    assert log.durability.needs_flush(NOW_MS)
    log.flush(NOW_MS)
    append(log, "z")
    assert not log.durability.needs_flush(NOW_MS)


def test_a_failed_fsync_is_reported_and_the_recovery_point_stays() -> None:
    disk = CrashFileSystem()
    log = open_log(disk, SMALL)
    append(log, "x" * 101)
    append(log, "y")
    disk.fail_next_fsync(".index")
    plan = log.durability.flush_plan()
    with pytest.raises(StorageFailure, match=r"\.index"):
        plan.run()
    assert log.durability.recovery_point == 0


def test_a_deleted_directory_needs_no_sync() -> None:
    disk = CrashFileSystem()
    disk.makedirs("/data")
    disk.sync_all()
    log = open_log(disk)
    append(log, "x")
    plan = log.durability.flush_plan()
    disk.rename(DIRECTORY, "/data/events-0.1-delete")
    assert plan.directories == (DIRECTORY, "/data")
    plan.run()
    log.durability.flushed(plan, NOW_MS)
    assert log.durability.recovery_point == 1
    after = disk.crash(Survival.LOSE_UNSYNCED)
    assert after.listdir("/data") == ["events-0.1-delete"], "the directory after the deleted one is synced"


def test_appends_continue_during_a_flush(tmp_path: Path) -> None:
    log = open_log(OsFileSystem(), SMALL, directory=str(tmp_path / "events-0"))
    for round_number in range(20):
        plan = log.durability.flush_plan()
        thread = threading.Thread(target=plan.run)
        thread.start()
        for _ in range(20):
            append(log, f"{round_number}")
        thread.join(timeout=TIMEOUT_S)
        assert not thread.is_alive()
        log.durability.flushed(plan, NOW_MS)
    assert log.durability.recovery_point == 19 * 20
    assert len(values_of(log)) == 400
