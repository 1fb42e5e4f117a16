"""Random workloads on one log that crash, and the checks of the log that the next start finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.disks.crash_points import CrashPoint
from tests.support.logs.log_checks import check_log
from tests.support.logs.log_managers import (
    get_or_create_log,
    new_log_manager,
    remove_deleted_files,
    write_checkpoint,
)
from tests.support.logs.partition_logs import TOPIC_PARTITION, all_records, append_marker, batch
from tidelog.protocol.steps import run_steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL, Survival

TOPIC_ID = UUID(int=7)
CONFIG = log_config(
    segment_bytes=400, index_interval_bytes=120, file_delete_delay_ms=1_000, retention_bytes=900
)
SURVIVALS: tuple[Survival | int, ...] = (*EVERY_SURVIVAL, 1, 2, 3)


def manager_on(disk: CrashFileSystem, directories: tuple[str, ...] = ("/data",)) -> LogManager:
    """Return a started manager of these log directories."""
    ids = count(1)
    manager = new_log_manager(disk, directories, CONFIG, new_id=lambda: UUID(int=next(ids)))
    manager.start(NOW_MS)
    return manager


@dataclass
class Driver:
    """Performs random steps on a log, and records in `progress` what a crash must and may leave."""

    disk: CrashFileSystem
    progress: list[Any]
    random: Random
    numbers: Iterator[int] = field(default_factory=count)
    sequences: dict[int, int] = field(default_factory=dict)
    leader_epoch: int = 0
    directories: tuple[str, ...] = ("/data",)
    other_steps: list[Callable[[Driver], None]] = field(default_factory=list)
    """Further steps of the workload, from which one is chosen as often as an append."""

    def run(self, steps: int) -> None:
        """Perform a number of steps."""
        self.manager = manager_on(self.disk, self.directories)
        self.log = get_or_create_log(self.manager, TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
        kinds = [self.append] * 5 + [self.flush] * 2
        kinds += [self.truncate, self.delete_records, self.retention, self.restart, self.roll]
        for step in self.other_steps:
            kinds += [partial(step, self)] * 5
        for _ in range(steps):
            self.random.choice(kinds)()

    def append(self) -> None:
        """Append three records, perhaps of a transaction."""
        values = [f"{next(self.numbers)}{'x' * self.random.randrange(60)}" for _ in range(3)]
        producer_id = self.random.choice([-1, 1, 2])
        options: dict[str, Any] = {}
        if producer_id > 0:
            sequence = self.sequences.get(producer_id, 0)
            options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            options["is_transactional"] = producer_id == 2
            self.sequences[producer_id] = sequence + len(values)
        self.progress.append(("append", self.log.log_end_offset, values))
        self.log.append_as_leader(batch(values, **options), self.leader_epoch, NOW_MS)
        if producer_id == 2 and self.random.random() < 0.5:
            self.progress.append(("append", self.log.log_end_offset, [""]))
            append_marker(self.log, 2, is_abort=True, leader_epoch=self.leader_epoch)

    def flush(self) -> None:
        """Flush the log and write its recovery point."""
        self.log.flush(NOW_MS)
        write_checkpoint(self.manager, CheckpointKind.RECOVERY_POINT)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.progress.append(("flushed", self.log.log_end_offset))

    def truncate(self) -> None:
        """Truncate the log to any offset."""
        target = self.random.randint(self.log.log_start_offset, self.log.log_end_offset)
        place = self.log.segments.floor(target)
        assert place is not None
        self.progress.append(("truncating", target))
        self.log.truncate_to(target, NOW_MS, below_high_watermark=True)
        self.progress.append(("truncated", self.log.log_end_offset))
        self.leader_epoch += 1
        producers = self.log.producers.producers
        self.sequences = {key: entry.last_sequence + 1 for key, entry in producers.items()}

    def delete_records(self) -> None:
        """Raise the log start offset."""
        self.log.advance_high_watermark(self.log.log_end_offset)
        target = self.random.randint(self.log.log_start_offset, self.log.high_watermark)
        self.progress.append(("start", target))
        self.log.advance_log_start_offset(target)
        write_checkpoint(self.manager, CheckpointKind.LOG_START_OFFSET)

    def retention(self) -> None:
        """Delete expired segments."""
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.progress.append(("start", self.log.log_end_offset))
        run_steps(self.manager.maintenance.apply_retention(NOW_MS))
        remove_deleted_files(self.manager, NOW_MS + self.random.choice([0, 5_000]))

    def roll(self) -> None:
        """Start another segment."""
        self.log.roll(NOW_MS)

    def restart(self) -> None:
        """Shut down cleanly and start again."""
        self.manager.shutdown(NOW_MS)
        self.progress.append(("flushed", self.log.log_end_offset))
        self.manager = manager_on(self.disk, self.directories)
        log = self.manager.get(TOPIC_PARTITION)
        assert log is not None
        self.log = log


@dataclass
class Expected:
    """The records that the log may and must have after a crash."""

    written: dict[int, set[str]] = field(default_factory=dict)
    flushed_end: int = 0
    highest_start: int = 0

    @classmethod
    def of(cls, progress: list[Any]) -> Expected:
        """Derive it from what a workload noted before the crash."""
        expected = cls()
        for kind, *details in progress:
            if kind == "append":
                offset, values = details
                for index, value in enumerate(values):
                    expected.written[offset + index] = {value}
            elif kind == "flushed":
                expected.flushed_end = details[0]
            elif kind == "start":
                expected.highest_start = max(expected.highest_start, details[0])
            else:
                expected.flushed_end = min(expected.flushed_end, details[0])
                if kind == "truncating":
                    # The truncation may be partly done: a batch is removed completely.
                    expected.flushed_end = min(expected.flushed_end, max(details[0] - 2, 0))
                else:
                    expected.written = {o: v for o, v in expected.written.items() if o < details[0]}
        return expected


def check_survivor(point: CrashPoint, directories: tuple[str, ...] = ("/data",)) -> None:
    """Check that the log has all flushed records and no others, and that it can be used."""
    expected = Expected.of(point.progress)
    manager = manager_on(point.disk, directories)
    for directory in manager.directories:
        assert not directory.damaged, (point, directory.damaged, point.progress)
        assert directory.offline_reason is None, point
    log = manager.get(TOPIC_PARTITION)
    assert log is not None or expected.flushed_end == 0, point
    assert log is None or log.topic_id == TOPIC_ID or expected.flushed_end == 0, point
    log = get_or_create_log(manager, TOPIC_PARTITION, TOPIC_ID, CONFIG, NOW_MS)
    assert log.log_end_offset >= expected.flushed_end, point
    assert log.log_start_offset <= expected.highest_start, point
    before = check_content(log, expected, point)
    check_log(log)
    log.append_as_leader(batch(["after"]), 1_000, NOW_MS)
    manager.shutdown(NOW_MS)
    reopened = manager_on(point.disk, directories).get(TOPIC_PARTITION)
    assert reopened is not None, point
    after = [(record.offset, record.value) for record in all_records(reopened)]
    assert after == [*before, (log.log_end_offset - 1, b"after")], point


def check_content(log: PartitionLog, expected: Expected, point: CrashPoint) -> list[tuple[int, bytes | None]]:
    """Return the records, after checking that each was written at its offset."""
    records = all_records(log, max_bytes=200)
    offsets = [record.offset for record in records]
    assert offsets == list(range(log.log_start_offset, log.log_end_offset)), point
    for record in records:
        value = (record.value or b"").decode() if record.key == b"k" else ""
        assert value in expected.written.get(record.offset, set()), (point, record)
    return [(record.offset, record.value) for record in records]
