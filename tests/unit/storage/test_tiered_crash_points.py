"""Power failures at every operation of workloads on a tiered log.

After each crash, every offset from the log start on is local or was copied before the crash. The epochs
of the remote part are known, flushed records that were not copied are local, and appends continue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.disks.crash_points import CrashPoint, crash_points
from tests.support.logs.log_checks import check_log
from tests.support.logs.log_managers import (
    get_or_create_log,
    new_log_manager,
    remove_deleted_files,
    write_checkpoint,
)
from tests.support.logs.partition_logs import TOPIC_PARTITION, all_records, batch
from tidelog.protocol.record import Record
from tidelog.protocol.steps import run_steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.truncation import RemoteState
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL, Survival

TOPIC_ID = UUID(int=7)
CONFIG = log_config(
    segment_bytes=400,
    index_interval_bytes=120,
    file_delete_delay_ms=1_000,
    remote_storage_enable=True,
    retention_ms=-1,
    local_retention_bytes=500,
)
SURVIVALS: tuple[Survival | int, ...] = (*EVERY_SURVIVAL, 1, 2)


def manager_on(disk: CrashFileSystem) -> LogManager:
    ids = count(1)
    manager = new_log_manager(disk, ["/data"], CONFIG, new_id=lambda: UUID(int=next(ids)))
    manager.start(NOW_MS)
    return manager


def local_records(log: PartitionLog) -> list[Record]:
    """Return the records that local readers get."""
    start = log.local_log_start_offset
    return [record for record in all_records(log, start, max_bytes=200) if record.offset >= start]


@dataclass
class Tier:
    """The content of remote storage by offset, leader epoch and value; it survives every crash."""

    records: dict[int, tuple[int, str]] = field(default_factory=dict)

    @property
    def highest_offset(self) -> int:
        return max(self.records, default=-1)


@dataclass
class Driver:
    """Performs random steps on a log and its tier, and records in `progress` what a crash must leave."""

    disk: CrashFileSystem
    progress: list[Any]
    tier: Tier
    random: Random
    leader_epoch: int = 0

    def run(self, steps: int) -> None:
        self.numbers = count()
        self.manager = manager_on(self.disk)
        self.log = get_or_create_log(self.manager, TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
        kinds = [self.append] * 6 + [self.flush, self.copy, self.retain] * 3
        kinds += [
            self.truncate,
            self.delete_records,
            self.expire_remote,
            self.restart,
            self.restart_from_remote,
        ]
        for _ in range(steps):
            self.random.choice(kinds)()

    def append(self) -> None:
        values = [f"{next(self.numbers)}{'x' * self.random.randrange(60)}" for _ in range(3)]
        self.progress.append(("append", self.log.log_end_offset, self.leader_epoch, values))
        self.log.append_as_leader(batch(values), self.leader_epoch, NOW_MS)

    def flush(self) -> None:
        self.log.flush(NOW_MS)
        write_checkpoint(self.manager, CheckpointKind.RECOVERY_POINT)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.progress.append(("flushed", self.log.log_end_offset))

    def copy(self) -> None:
        """Copy the sealed segments that are durable and committed."""
        end = min(self.log.high_watermark, self.log.durability.recovery_point)
        sealed = [base for base in self.log.segments.base_offsets if base <= end]
        if not sealed:
            return
        for record in local_records(self.log):
            if record.offset < sealed[-1]:
                epoch = self.log.leader_epochs.epoch_for_offset(record.offset)
                assert epoch is not None
                self.tier.records[record.offset] = (epoch, (record.value or b"").decode())
        self.log.remote_border.raise_highest_offset(sealed[-1] - 1)

    def retain(self) -> None:
        run_steps(self.manager.maintenance.apply_retention(NOW_MS))
        remove_deleted_files(self.manager, NOW_MS + self.random.choice([0, 5_000]))

    def truncate(self) -> None:
        lowest = max(self.log.local_log_start_offset, self.log.highest_offset_in_remote_storage + 1)
        target = self.random.randint(min(lowest, self.log.log_end_offset), self.log.log_end_offset)
        self.progress.append(("truncating", target))
        self.log.truncate_to(target, NOW_MS, below_high_watermark=True)
        self.tier.records = {o: r for o, r in self.tier.records.items() if o < self.log.log_end_offset}
        self.progress.append(("truncated", self.log.log_end_offset))
        self.leader_epoch += 1

    def delete_records(self) -> None:
        target = self.random.randint(self.log.log_start_offset, self.log.high_watermark)
        self.progress.append(("start", target))
        self.log.advance_log_start_offset(target)

    def expire_remote(self) -> None:
        """Expire records as RemoteLogManager does: the log start is durable before segments are deleted."""
        reached = max(
            min(self.log.local_log_start_offset, self.tier.highest_offset + 1), self.log.log_start_offset
        )
        target = self.random.randint(self.log.log_start_offset, reached)
        self.progress.append(("start", target))
        self.log.advance_log_start_offset_from_remote(target)

    def restart_from_remote(self) -> None:
        """Restart the log from the tier: the leader's local log starts after this follower's end."""
        self.leader_epoch += 1
        start = self.random.randint(self.log.log_start_offset, self.log.log_end_offset)
        end = self.log.log_end_offset + self.random.randrange(1, 9)
        self.progress.append(("restarting", start, end))
        epochs = LeaderEpochCache.of(self.log.leader_epochs.entries)
        epochs.assign(self.leader_epoch, self.log.log_end_offset)
        for record in local_records(self.log):
            epoch = self.log.leader_epochs.epoch_for_offset(record.offset)
            assert epoch is not None
            self.tier.records.setdefault(record.offset, (epoch, (record.value or b"").decode()))
        for offset in range(self.log.log_end_offset, end):
            self.tier.records[offset] = (self.leader_epoch, f"leader's {offset}")
        self.log.restart_from_remote(
            RemoteState(
                log_start_offset=start,
                local_log_start_offset=end,
                leader_epochs=epochs.entries,
                producer_snapshot=None,
            ),
            NOW_MS,
        )
        self.progress.append(("restarted", end))

    def restart(self) -> None:
        self.manager.shutdown(NOW_MS)
        self.progress.append(("flushed", self.log.log_end_offset))
        self.manager = manager_on(self.disk)
        log = self.manager.get(TOPIC_PARTITION)
        assert log is not None
        log.remote_border.raise_highest_offset(self.log.highest_offset_in_remote_storage)
        self.log = log


@dataclass
class Expected:
    """The records that the log may and must have after a crash."""

    written: dict[int, set[tuple[int, str]]] = field(default_factory=dict)
    flushed_end: int = 0
    highest_start: int = 0

    @classmethod
    def of(cls, progress: list[Any]) -> Expected:
        expected = cls()
        for kind, *details in progress:
            if kind == "append":
                offset, epoch, values = details
                for index, value in enumerate(values):
                    expected.written[offset + index] = {(epoch, value)}
            elif kind == "flushed":
                expected.flushed_end = details[0]
            elif kind == "start":
                expected.highest_start = max(expected.highest_start, details[0])
            elif kind == "truncating":
                expected.flushed_end = min(expected.flushed_end, max(details[0] - 2, 0))
            elif kind == "truncated":
                expected.flushed_end = min(expected.flushed_end, details[0])
                expected.written = {o: v for o, v in expected.written.items() if o < details[0]}
            elif kind == "restarting":
                # Local records may be partly lost; the tier contains them.
                expected.flushed_end = 0
                expected.highest_start = max(expected.highest_start, details[0])
            else:
                expected.flushed_end = details[0]
        return expected


def check_survivor(point: CrashPoint, tier: Tier) -> None:
    expected = Expected.of(point.progress)
    manager = manager_on(point.disk)
    assert not manager.directories[0].damaged, (point, manager.directories[0].damaged)
    log = get_or_create_log(manager, TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
    check_border(log, point)
    assert log.log_end_offset >= expected.flushed_end, (point, point.progress)
    assert log.log_start_offset <= expected.highest_start, (point, point.progress)
    for offset in range(log.log_start_offset, log.local_log_start_offset):
        assert offset in tier.records, (point, offset, point.progress)
        epoch, _ = tier.records[offset]
        assert log.leader_epochs.epoch_for_offset(offset) == epoch, (point, offset, log.leader_epochs)
    for record in local_records(log):
        value = (record.value or b"").decode()
        epoch_of = log.leader_epochs.epoch_for_offset(record.offset)
        assert (epoch_of, value) in expected.written.get(record.offset, set()), (point, record)
    check_log(log)
    end = log.log_end_offset
    log.append_as_leader(batch(["after"]), 1_000, NOW_MS)
    manager.shutdown(NOW_MS)
    reopened = manager_on(point.disk).get(TOPIC_PARTITION)
    assert reopened is not None, point
    assert (reopened.log_start_offset, reopened.local_log_start_offset, reopened.log_end_offset) == (
        log.log_start_offset,
        log.local_log_start_offset,
        end + 1,
    )
    assert reopened.leader_epochs.entries == log.leader_epochs.entries


def check_border(log: PartitionLog, point: object) -> None:
    assert log.log_start_offset <= log.local_log_start_offset <= log.high_watermark, point
    assert log.high_watermark <= log.log_end_offset, point
    assert log.segments.first.base_offset <= log.local_log_start_offset, point
    assert log.highest_offset_in_remote_storage < log.log_end_offset, point


def enumerate_crashes(seed: int, steps: int) -> int:
    """Run one random workload with a crash at every operation; return the number of crashes."""
    tiers: list[Tier] = []

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        tiers.append(Tier())
        Driver(disk, progress, tiers[-1], Random(seed)).run(steps)

    points = 0
    for point in crash_points(lambda disk: disk.makedirs("/data"), workload, SURVIVALS):
        check_survivor(point, tiers[-1])
        points += 1
    return points


@pytest.mark.parametrize("seed", range(100, 108))
def test_after_any_crash_of_a_tiered_log_each_offset_is_local_or_remote(seed: int) -> None:
    assert enumerate_crashes(seed, steps=14) > 80


def test_a_log_start_in_the_local_part_is_durable_before_epochs_that_begin_with_it() -> None:
    disk = CrashFileSystem()
    log = get_or_create_log(manager_on(disk), TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
    log.append_as_leader(batch(["a", "b", "c", "d"]), 0, NOW_MS)
    log.flush(NOW_MS)
    log.advance_high_watermark(4)
    log.advance_log_start_offset(3)
    log.append_as_leader(batch(["e"]), 1, NOW_MS)
    log.flush(NOW_MS)
    reopened_log = manager_on(disk).get(TOPIC_PARTITION)
    assert reopened_log is not None
    assert (reopened_log.log_start_offset, reopened_log.leader_epochs.epoch_for_offset(2)) == (3, None)
