"""Power failures at every operation of small workloads, with every possible loss of data of the disk.

After each crash the log opens and has all flushed records. It has no record that was not written at
its offset, and no truncated record. Appends continue.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.disks.crash_points import crash_points
from tests.support.logs.crash_workloads import CONFIG, SURVIVALS, TOPIC_ID, Driver, check_survivor, manager_on
from tests.support.logs.log_managers import get_or_create_log
from tests.support.logs.partition_logs import TOPIC_PARTITION
from tidelog.testing.simulation.crash_file_system import CrashFileSystem, SimulatedCrash


def enumerate_crashes(seed: int, steps: int) -> int:
    """Run one random workload with a crash at every operation; return the number of different crashes."""

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        Driver(disk, progress, Random(seed)).run(steps)

    points = 0
    for point in crash_points(lambda disk: disk.makedirs("/data"), workload, SURVIVALS, skips_repeated=True):
        check_survivor(point)
        points += 1
    return points


def enumerate_crashes_of_recovery(seed: int, steps: int) -> int:
    """Crash one workload at some operation, then crash its recovery at every operation."""
    whole = CrashFileSystem()
    whole.makedirs("/data")
    whole.sync_all()
    Driver(whole, [], Random(seed)).run(steps)
    first = CrashFileSystem()
    first.makedirs("/data")
    first.sync_all()
    first.crash_at = Random(seed).randint(1, whole.operation_count)
    progress: list[Any] = []
    with suppress(SimulatedCrash):
        Driver(first, progress, Random(seed)).run(steps)
    crashed = first.crash(seed)
    points = 0
    for point in crash_points(
        lambda disk: copy_files(crashed, disk, "/data"),
        lambda disk, _: start_and_take_up(disk),
        SURVIVALS,
        skips_repeated=True,
    ):
        check_survivor(point._replace(progress=progress))
        points += 1
    return points


def start_and_take_up(disk: CrashFileSystem) -> None:
    get_or_create_log(manager_on(disk), TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)


def copy_files(source: CrashFileSystem, target: CrashFileSystem, directory: str) -> None:
    target.makedirs(directory)
    for name in source.listdir(directory):
        path = f"{directory}/{name}"
        if source.is_dir(path):
            copy_files(source, target, path)
        else:
            target.open(path, create=True).append(source.read(path))


@pytest.mark.parametrize("seed", range(24))
def test_flushed_records_survive_a_crash_at_any_operation(seed: int) -> None:
    assert enumerate_crashes(seed, steps=10) > 40


@pytest.mark.parametrize("seeds", [range(first, first + 10) for first in range(100, 150, 10)])
def test_a_crash_at_any_operation_of_recovery_is_recovered(seeds: range) -> None:
    assert sum(enumerate_crashes_of_recovery(seed, steps=10) for seed in seeds) > 50
