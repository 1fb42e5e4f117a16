"""The leader epoch checkpoint is written outside of appends, and a crash before that loses no epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.disks.crash_points import CrashPoint, crash_points
from tests.support.logs.log_managers import delete_logs, get_or_create_log, new_log_manager, write_checkpoint
from tests.support.logs.partition_logs import DIRECTORY, TOPIC_PARTITION, append, batch, open_log
from tests.support.logs.tiered_logs import tiered_log
from tidelog.protocol.ids import LeaderEpoch
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL, Survival

EPOCHS = f"{DIRECTORY}/leader-epoch-checkpoint"
TOPIC_ID = UUID(int=7)
CONFIG = log_config(segment_bytes=400, index_interval_bytes=120)
SURVIVALS: tuple[Survival | int, ...] = (*EVERY_SURVIVAL, 1, 2, 3)


def manager_on(disk: CrashFileSystem) -> LogManager:
    ids = count(1)
    manager = new_log_manager(disk, ["/data"], CONFIG, new_id=lambda: UUID(int=next(ids)))
    manager.start(NOW_MS)
    return manager


def epochs_of_batches(log: PartitionLog) -> Iterator[tuple[int, LeaderEpoch]]:
    for segment in log.segments:
        for _, header in segment.batches():
            yield header.base_offset, header.partition_leader_epoch


@dataclass
class Replica:
    """Performs random steps of a leader and a follower, and records the flushed end in `progress`."""

    disk: CrashFileSystem
    progress: list[Any]
    random: Random
    latest_epoch: LeaderEpoch = 0
    names: Iterator[int] = field(default_factory=count)

    def run(self, steps: int) -> None:
        self.manager = manager_on(self.disk)
        self.log = get_or_create_log(self.manager, TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
        kinds = [self.lead] * 3 + [self.follow] * 3 + [self.flush, self.elect, self.truncate, self.roll]
        for _ in range(steps):
            self.random.choice(kinds)()

    def value(self) -> bytearray:
        return batch([f"{next(self.names)}{'x' * self.random.randrange(80)}"])

    def elect(self) -> None:
        self.latest_epoch += 1
        self.log.epoch_file.note(self.latest_epoch, self.log.log_end_offset)

    def lead(self) -> None:
        self.log.append_as_leader(self.value(), self.latest_epoch, NOW_MS)

    def follow(self) -> None:
        """Append older records of a leader; their epoch is at least that of the last record."""
        last = max((epoch for _, epoch in epochs_of_batches(self.log)), default=0)
        epoch = self.random.randint(last, self.latest_epoch)
        end = self.log.log_end_offset
        if epoch == last:
            self.log.truncate_to(end, NOW_MS)  # as the leader requests, for epochs without records
        records = batch(["copied"], base_offset=end, leader_epoch=epoch)
        self.log.append_as_follower(bytes(records), NOW_MS)

    def flush(self) -> None:
        self.log.flush(NOW_MS)
        write_checkpoint(self.manager, CheckpointKind.RECOVERY_POINT)
        self.progress.append(self.log.log_end_offset)

    def truncate(self) -> None:
        target = self.random.randint(0, self.log.log_end_offset)
        # A batch is removed completely; here each batch has one record.
        self.progress.append(min(target, self.progress[-1] if self.progress else 0))
        self.log.truncate_to(target, NOW_MS, below_high_watermark=True)

    def roll(self) -> None:
        self.log.roll(NOW_MS)


def check_epochs(point: CrashPoint) -> None:
    log = manager_on(point.disk).get(TOPIC_PARTITION)
    flushed_end = point.progress[-1] if point.progress else 0
    assert log is not None or not flushed_end, point
    if log is None:
        return
    assert log.log_end_offset >= flushed_end, point
    epochs = dict(epochs_of_batches(log))
    assert {offset: log.leader_epochs.epoch_for_offset(offset) for offset in epochs} == epochs, point
    starts = [entry.start_offset for entry in log.leader_epochs.entries]
    assert all(start in epochs for start in starts), (point, starts)


@pytest.mark.parametrize("seed", range(16))
def test_no_crash_before_the_checkpoint_loses_the_epoch_of_a_record(seed: int) -> None:
    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        Replica(disk, progress, Random(seed)).run(16)

    points = 0
    for point in crash_points(lambda disk: disk.makedirs("/data"), workload, SURVIVALS, skips_repeated=True):
        check_epochs(point)
        points += 1
    assert points > 80


def test_a_crash_before_any_flush_is_recovered(caplog: pytest.LogCaptureFixture) -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, "a", leader_epoch=1)
    append(log, "b", leader_epoch=4)
    assert not disk.exists(EPOCHS)
    reopened = open_log(disk.crash(Survival.KEEP_ALL))
    assert reopened.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(4, 1)]
    assert caplog.records == []


def test_an_older_plan_does_not_overwrite_the_checkpoint_of_a_truncation() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, "a", leader_epoch=1)
    append(log, "b", leader_epoch=2)
    plan = log.durability.flush_plan()
    log.truncate_to(1, NOW_MS, below_high_watermark=True)
    plan.run()
    log.durability.flushed(plan, NOW_MS)
    assert disk.read(EPOCHS) == b"0\n1\n1 0\n"


def test_a_plan_of_a_deleted_partition_does_not_write_to_its_successor() -> None:
    disk = CrashFileSystem()
    manager = manager_on(disk)
    old = get_or_create_log(manager, TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
    append(old, "old", leader_epoch=9)
    plan = old.durability.flush_plan()
    delete_logs(manager, [TOPIC_PARTITION], NOW_MS)
    new = get_or_create_log(manager, TOPIC_PARTITION, UUID(int=8), CONFIG, NOW_MS)
    append(new, "new", leader_epoch=0)
    new.flush(NOW_MS)
    plan.run()
    assert disk.read(f"{new.directory}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_epochs_of_a_tiered_log_are_checkpointed_before_local_records_are_deleted() -> None:
    disk = CrashFileSystem()
    log = tiered_log(disk=disk)
    for epoch in (1, 4):
        append(log, "a", "b", leader_epoch=epoch)
        log.roll(NOW_MS)
    log.remote_border.raise_highest_offset(3)
    assert log.retention.apply(NOW_MS) == 2
    reopened_log = tiered_log(disk=disk.crash(Survival.KEEP_ALL))
    assert (reopened_log.log_start_offset, reopened_log.local_log_start_offset) == (0, 4)
    assert reopened_log.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(4, 2)]
