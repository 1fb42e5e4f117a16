"""Interrupted deletions and compactions are completed or undone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.configs import log_config
from tests.support.disks.crash_points import crash_points
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import DIRECTORY, append, batch, open_log, values_of
from tidelog.protocol.batch import read_header
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.recovery.interrupted_swaps import finish_interrupted_swaps
from tidelog.storage.segment.segment import LogSegment
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL

COMPACTED = log_config(cleanup_policy=("compact",))


def path_of(base_offset: int, kind: str) -> str:
    return f"{DIRECTORY}/{base_offset:020d}{kind}"


def three_segments(disk: CrashFileSystem) -> PartitionLog:
    """Write segments at 0, 2 and 4 with two records each."""
    log = open_log(disk, COMPACTED)
    for first in (0, 2, 4):
        append(log, f"{first}", f"{first + 1}")
        log.roll(0)
    return log


def write_result(disk: CrashFileSystem, suffix: str, base_offset: int = 0) -> None:
    """Write the result of compacting the first two segments: the record at offset 3."""
    segment = LogSegment(disk, DIRECTORY, base_offset, COMPACTED, 0, create=True, suffix=suffix)
    data = batch(["3"], base_offset=3)
    segment.append(data, [read_header(data)])
    segment.seal()


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


def test_files_marked_deleted_are_removed(disk: CrashFileSystem) -> None:
    log = three_segments(disk)
    log.segments.first.files.rename(disk, "", ".deleted")
    disk.open(path_of(2, ".snapshot") + ".deleted", create=True)
    reopened = open_log(disk, COMPACTED, clean=True)
    assert values_of(reopened) == ["2", "3", "4", "5"]
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".deleted")]


def test_unfinished_results_of_compaction_are_removed(disk: CrashFileSystem) -> None:
    three_segments(disk)
    write_result(disk, ".cleaned")
    assert values_of(open_log(disk, COMPACTED)) == ["0", "1", "2", "3", "4", "5"]
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


@pytest.mark.parametrize("clean", [True, False])
def test_finished_results_of_compaction_replace_their_sources(disk: CrashFileSystem, clean: bool) -> None:
    three_segments(disk)
    write_result(disk, ".swap")
    log = open_log(disk, COMPACTED, clean=clean)
    assert values_of(log) == ["3", "4", "5"]
    assert log.segments.base_offsets == [0, 4, 6]
    check_log(log)


def test_swaps_of_an_unfinished_split_are_removed(disk: CrashFileSystem) -> None:
    three_segments(disk)
    write_result(disk, ".swap", base_offset=2)
    disk.open(path_of(0, ".log") + ".cleaned", create=True)
    assert values_of(open_log(disk, COMPACTED)) == ["0", "1", "2", "3", "4", "5"]
    assert disk.listdir(DIRECTORY) == [name for name in disk.listdir(DIRECTORY) if "." not in name[24:]]


def test_a_crash_during_removal_of_an_unfinished_split_is_recovered() -> None:
    def prepare(disk: CrashFileSystem) -> None:
        three_segments(disk)
        write_result(disk, ".swap", base_offset=2)
        disk.open(path_of(0, ".log") + ".cleaned", create=True)

    def workload(disk: CrashFileSystem, _: list[Any]) -> None:
        finish_interrupted_swaps(disk, DIRECTORY)

    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(30))):
        assert values_of(open_log(point.disk, COMPACTED)) == ["0", "1", "2", "3", "4", "5"], point


def test_indexes_renamed_before_their_log_are_kept(disk: CrashFileSystem) -> None:
    three_segments(disk)
    for name in disk.listdir(DIRECTORY):
        if name.startswith(("00000000000000000000.", "00000000000000000002.")):
            disk.unlink(f"{DIRECTORY}/{name}")
    write_result(disk, ".swap")
    before = disk.read(path_of(0, ".timeindex") + ".swap")
    for kind in (".index", ".timeindex"):
        disk.rename(path_of(0, kind) + ".swap", path_of(0, kind))
    finish_interrupted_swaps(disk, DIRECTORY)
    assert disk.read(path_of(0, ".timeindex")) == before
    assert before and disk.exists(path_of(0, ".log"))


def test_files_of_other_kinds_are_unchanged(disk: CrashFileSystem) -> None:
    disk.makedirs(DIRECTORY)
    names = [
        "00000000000000000000-0000000000.checkpoint.deleted",
        "leader-epoch-checkpoint",
        "notes.deleted",
        "0.log.cleaned",
    ]
    for name in names:
        disk.open(f"{DIRECTORY}/{name}", create=True)
    finish_interrupted_swaps(disk, DIRECTORY)
    assert disk.listdir(DIRECTORY) == sorted(names)


def test_a_crash_during_completion_is_recovered(disk: CrashFileSystem) -> None:
    def prepare(disk: CrashFileSystem) -> None:
        three_segments(disk)
        write_result(disk, ".swap")

    def workload(disk: CrashFileSystem, _: list[Any]) -> None:
        finish_interrupted_swaps(disk, DIRECTORY)

    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(30))):
        log = open_log(point.disk, COMPACTED)
        assert values_of(log) == ["3", "4", "5"], point
        check_log(log)
