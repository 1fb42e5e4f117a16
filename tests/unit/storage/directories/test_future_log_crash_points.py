"""Power failures at every operation of a move of a log to another directory.

After each crash one directory has the log with all flushed records. The incomplete copy is not used.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.support.disks.crash_points import CrashPoint, crash_points
from tests.support.logs.crash_workloads import SURVIVALS, Driver, check_survivor, manager_on
from tests.support.logs.log_moves import begin_move, checkpoint_copy, copy_all, copy_step, retire_source
from tests.support.logs.partition_logs import TOPIC_PARTITION
from tidelog.storage.directories.log_move import LogMove
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

DIRECTORIES = ("/a", "/b")


class Mover:
    """Moves the log of a workload between /a and /b, a few steps at a time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.move: LogMove | None = None
        self.completed = 0
        self._ids = count(1_000)

    def step(self, driver: Driver) -> None:
        log, move = driver.log, self.move
        if move is None or move.log is not log or not move.is_possible:
            here = log.directory.rpartition("/")[0]
            there = "/b" if here == "/a" else "/a"
            self.move = begin_move(driver.manager, TOPIC_PARTITION, there, self._new_id)
            return
        for _ in range(self.random.randrange(1, 16)):
            if not copy_step(move):
                self.finish(driver, move)
                return

    def finish(self, driver: Driver, move: LogMove) -> None:
        checkpoint_copy(move)
        if self.random.random() < 0.5:
            self.random.choice([driver.append, driver.roll, driver.delete_records])()
            for _ in range(self.random.randrange(4)):
                copy_step(move)
        if not move.future.can_replace:
            move.forget_checkpoints()
            return
        move.replace()
        if self.random.random() < 0.5:
            driver.append()
        retire_source(move)
        # The flush is not noted: the checkpoint of the recovery point is not written.
        self.completed += 1
        self.move = None

    def _new_id(self) -> UUID:
        return UUID(int=next(self._ids))


def enumerate_crashes(seed: int, steps: int) -> tuple[int, int]:
    """Run one random workload with a crash at every operation; return the numbers of crashes and moves."""
    completed = 0

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        nonlocal completed
        random = Random(seed)
        mover = Mover(random)
        Driver(disk, progress, random, directories=DIRECTORIES, other_steps=[mover.step]).run(steps)
        completed = mover.completed

    points = 0
    for point in crash_points(make_directories, workload, SURVIVALS, skips_repeated=True):
        check_survivor(point, DIRECTORIES)
        points += 1
    return points, completed


def make_directories(disk: CrashFileSystem) -> None:
    for path in DIRECTORIES:
        disk.makedirs(path)


LONG_SEEDS = [range(first, first + 4) for first in range(4, 12, 4)]


@pytest.mark.parametrize(
    "seeds", [range(4), *(pytest.param(seeds, marks=pytest.mark.long) for seeds in LONG_SEEDS)]
)
def test_flushed_records_survive_a_crash_at_any_operation_of_a_move(seeds: range) -> None:
    points, completed = (sum(each) for each in zip(*(enumerate_crashes(s, 14) for s in seeds), strict=True))
    assert points > 1_000
    assert completed >= 1


def whole_move(disk: CrashFileSystem, progress: list[Any]) -> None:
    """Write a log with deleted records and an open transaction, move it, and append to it."""
    driver = Driver(disk, progress, Random(5), directories=DIRECTORIES)
    driver.run(0)
    for work in (driver.append, driver.append, driver.append, driver.flush, driver.delete_records):
        work()
    move = begin_move(driver.manager, TOPIC_PARTITION, "/b", iter_ids())
    copy_all(move)
    checkpoint_copy(move)
    driver.append()
    move.replace()
    driver.append()
    retire_source(move)
    driver.flush()


def iter_ids() -> Any:
    ids = count(1_000)
    return lambda: UUID(int=next(ids))


def test_a_crash_at_any_operation_leaves_the_log_in_one_directory() -> None:
    for point in crash_points(make_directories, whole_move, SURVIVALS, skips_repeated=True):
        check_survivor(point, DIRECTORIES)
        check_log_start(point)


def check_log_start(point: CrashPoint) -> None:
    """Check that records that DeleteRecords has removed durably do not return."""
    starts = [detail for kind, *detail in point.progress if kind == "start"]
    moved = len([kind for kind, *_ in point.progress if kind == "append"]) > 4
    manager = manager_on(point.disk, DIRECTORIES)
    log: PartitionLog | None = manager.get(TOPIC_PARTITION)
    if starts and moved:
        assert log is not None, point
        assert log.log_start_offset == starts[0][0], point
