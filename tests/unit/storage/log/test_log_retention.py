"""Segments are deleted by age, by size and below the log start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import DIRECTORY, append, open_log
from tidelog.protocol.record import read_records
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


def filled_log(disk: CrashFileSystem, **settings: Any) -> PartitionLog:
    log = open_log(disk, replace(SMALL, **settings))
    for index in range(12):
        append(log, f"{index}" + "x" * 50, timestamps=NOW_MS + index)
    return log


def test_segments_below_the_log_start_are_renamed_and_later_deleted(disk: CrashFileSystem) -> None:
    log = filled_log(disk, file_delete_delay_ms=1_000)
    second = log.segments.base_offsets[1]
    log.advance_log_start_offset(second)
    assert log.retention.apply(NOW_MS) == 1
    renamed_files = sorted(name for name in disk.listdir(DIRECTORY) if name.startswith("0" * 20))
    assert renamed_files == [f"{'0' * 20}{kind}.deleted" for kind in (".index", ".log", ".timeindex")]
    assert log.retention.delete_expired_files(NOW_MS + 999) == 0
    assert log.retention.delete_expired_files(NOW_MS + 1_000) == 3
    assert not [name for name in disk.listdir(DIRECTORY) if ".deleted" in name]


def test_retention_bytes_deletes_the_oldest_segments_and_moves_the_log_start(
    disk: CrashFileSystem,
) -> None:
    log = filled_log(disk, retention_bytes=500)
    assert log.retention.apply(NOW_MS) > 0
    assert log.log_start_offset == log.segments.first.base_offset > 0
    assert 500 <= log.size_bytes < 900
    assert log.retention.apply(NOW_MS) == 0


def test_retention_ms_deletes_all_segments_and_leaves_an_empty_active_one(
    disk: CrashFileSystem,
) -> None:
    log = filled_log(disk, retention_ms=1_000)
    assert log.retention.apply(NOW_MS + 1_000) == 0
    assert log.retention.apply(NOW_MS + 5_000) > 2
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (12, 12, 0)
    assert log.segments.base_offsets == [12]
    assert append(log, "next") == 12


def test_retention_is_ignored_without_the_delete_policy(disk: CrashFileSystem) -> None:
    log = filled_log(disk, retention_ms=0, retention_bytes=0, cleanup_policy=("compact",))
    assert log.retention.apply(NOW_MS + 10**9) == 0


def test_a_slice_stays_readable_after_retention(disk: CrashFileSystem) -> None:
    log = filled_log(disk, retention_ms=1_000, file_delete_delay_ms=0)
    records = log.read(0, 10_000).records
    assert records is not None
    before = records.read()
    log.retention.apply(NOW_MS + 5_000)
    log.retention.delete_expired_files(NOW_MS + 5_000)
    assert records.read() == before
    assert len(read_records(before)) == 1
