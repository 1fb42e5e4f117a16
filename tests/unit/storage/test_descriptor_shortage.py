"""A process without free descriptors: operations are refused or completed later; no disk counts as failed.

Each history runs once for every use of a descriptor, which then fails once or several times in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.disks.descriptor_shortage import DescriptorLimitedFileSystem
from tests.support.logs.compaction import COMPACTED, append_keyed, compact, roll
from tests.support.logs.log_checks import check_log
from tests.support.logs.log_managers import (
    EVENTS,
    TOPIC_ID,
    existing_log,
    get_or_create_log,
    start_log_manager,
)
from tests.support.logs.partition_logs import append, append_marker, values_of
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.protocol.steps import run_steps
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.errors import is_descriptor_shortage
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.truncation import RemoteState
from tidelog.storage.producers.producer_entry import ProducerEntry
from tidelog.storage.producers.producer_snapshot import encode_snapshot
from tidelog.testing.simulation.crash_images import Survival

T = TypeVar("T")

SMALL = log_config(segment_bytes=300, index_interval_bytes=1, retention_ms=-1)
TIERED = replace(SMALL, remote_storage_enable=True)
ATTEMPTS_MAX = 20
FEWEST_USES = 2


class ShortageFixture:
    """A log manager in a process without descriptors at times; `retry` repeats operations like a caller."""

    def __init__(self, disk: DescriptorLimitedFileSystem, config: LogConfig = SMALL) -> None:
        self.disk = disk
        self.config = config
        disk.makedirs("/a")
        disk.sync_all()
        self.manager = self.retry(self._start)

    def _start(self) -> LogManager:
        return start_log_manager(self.disk, "/a", default_config=self.config)

    def retry(self, operation: Callable[[], T]) -> T:
        """Retry until descriptors are available; only their lack may be logged, and no disk may fail."""
        for _ in range(ATTEMPTS_MAX):
            try:
                return operation()
            except (OSError, KafkaError) as error:
                assert is_descriptor_shortage(error), error
                if isinstance(error, KafkaError):
                    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
                self.check_online()
        raise AssertionError(f"{operation} did not succeed")

    def check_online(self) -> None:
        manager = getattr(self, "manager", None)
        if manager is not None:
            manager.directories.take_failed_offline()
            assert [each.offline_reason for each in manager.directories] == [None]

    @property
    def log(self) -> PartitionLog:
        return existing_log(self.manager)

    def create(self) -> None:
        def create() -> PartitionLog:
            return get_or_create_log(self.manager, EVENTS, TOPIC_ID, self.config, NOW_MS)

        self.retry(create)

    def append(self, *values: str, **options: object) -> None:
        """Append; a refused append leaves the log unchanged or first completes the interrupted operation."""

        def attempt() -> Offset:
            end_offset, size = self.log.log_end_offset, self.log.size_bytes
            is_interrupted = self.log.failure is not None
            try:
                return append(self.log, *values, **options)  # type: ignore[arg-type]
            except KafkaError:
                is_unchanged = (self.log.log_end_offset, self.log.size_bytes) == (end_offset, size)
                assert is_unchanged or is_interrupted
                raise

        self.retry(attempt)

    def checkpoint_all(self) -> None:
        for kind in CheckpointKind:
            for work in self.manager.maintenance.planned_checkpoints(kind):
                try:
                    work.run()
                except OSError as error:
                    self.manager.maintenance.work_failed(work, error)
        self.check_online()

    def restart(self) -> None:
        """Restart the node: without a descriptor there is no clean shutdown, and the next start recovers."""
        self.manager.shutdown(NOW_MS)
        self.check_online()
        self.manager = self.retry(self._start)


def start_empty(fixture: ShortageFixture) -> None:
    """Start with an empty directory."""


def append_in_segments(fixture: ShortageFixture) -> None:
    """Append full segments, an aborted transaction, and another leader epoch."""
    fixture.create()
    for number in range(4):
        fixture.append(f"{number}" * 60)
    fixture.append("t", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    fixture.retry(lambda: append_marker(fixture.log, 5, is_abort=True))
    fixture.append("e" * 100, leader_epoch=3)
    fixture.append("f" * 100, leader_epoch=3)


def flushed_segments(fixture: ShortageFixture) -> None:
    """Append the same segments and flush them."""
    append_in_segments(fixture)
    fixture.log.flush(NOW_MS)


def runs_with_shortages(
    history: Callable[[ShortageFixture], None],
    prepare: Callable[[ShortageFixture], None],
    config: LogConfig = SMALL,
) -> Iterator[tuple[ShortageFixture, str]]:
    """Yield a fixture and the moment of its shortage for each use of a descriptor, after the history."""
    for fails_times in (1, 3):
        fails_at = 0
        while True:
            fails_at += 1
            disk = DescriptorLimitedFileSystem()
            fixture = ShortageFixture(disk, config)
            prepare(fixture)
            disk.refuse_uses(fails_at, fails_times)
            history(fixture)
            if len(disk.uses) < fails_at:
                assert fails_at > FEWEST_USES, "no use of a descriptor failed"
                break
            disk.fails_times = 0
            yield fixture, f"{disk.uses[fails_at - 1]} ({fails_at}), {fails_times} times"


EXPECTED = ["0" * 60, "1" * 60, "2" * 60, "3" * 60, "t", "", "e" * 100, "f" * 100]


def visible_values(log: PartitionLog) -> list[str]:
    """Return the values of all records; the value of a marker is empty."""
    return ["" if value == "\0\0\0\0\0\0" else value for value in values_of(log)]


def check(fixture: ShortageFixture, moment: str, expected: list[str]) -> None:
    """Check the log and its indexes now, after a process crash, and after a machine crash."""
    assert visible_values(fixture.log) == expected, moment
    check_log(fixture.log)
    fixture.log.flush(NOW_MS)
    recovery_point = fixture.log.durability.recovery_point
    assert recovery_point == fixture.log.log_end_offset, moment
    fixture.checkpoint_all()
    lost = fixture.disk.crash(Survival.LOSE_UNSYNCED)
    for manager in (start_log_manager(lost, "/a"), start_log_manager(fixture.disk, "/a")):
        assert visible_values(existing_log(manager)) == expected, moment
        check_log(existing_log(manager))
        manager.shutdown(NOW_MS)
    again = existing_log(start_log_manager(fixture.disk, "/a"))
    assert visible_values(again) == expected, moment
    assert again.leader_epochs.entries == fixture.log.leader_epochs.entries, moment


def test_creation_and_append_are_refused_or_completed_later() -> None:
    for fixture, moment in runs_with_shortages(append_in_segments, start_empty):
        assert len(fixture.log.segments) > 2
        check(fixture, moment, EXPECTED)


def test_a_flush_is_completed_later() -> None:
    def history(fixture: ShortageFixture) -> None:
        fixture.append("more", leader_epoch=3)
        fixture.retry(lambda: fixture.log.flush(NOW_MS))
        fixture.checkpoint_all()

    for fixture, moment in runs_with_shortages(history, flushed_segments):
        check(fixture, moment, [*EXPECTED, "more"])


def test_reads_of_sealed_segments_are_refused_and_succeed_later() -> None:
    def history(fixture: ShortageFixture) -> None:
        fixture.retry(lambda: visible_values(fixture.log))
        aborted = fixture.retry(lambda: fixture.log.aborted_transactions(0, fixture.log.log_end_offset))
        assert [one.producer_id for one in aborted] == [5]
        assert fixture.retry(lambda: fixture.log.timestamps.first_record_from(NOW_MS)) is not None

    for fixture, moment in runs_with_shortages(history, flushed_segments):
        check(fixture, moment, EXPECTED)


@pytest.mark.parametrize("offset", [7, 5, 1, 0])
def test_an_interrupted_truncation_is_completed(offset: int) -> None:
    def history(fixture: ShortageFixture) -> None:
        fixture.retry(lambda: fixture.log.truncate_to(offset, NOW_MS, below_high_watermark=True))
        fixture.append("later", leader_epoch=4)

    for fixture, moment in runs_with_shortages(history, flushed_segments):
        assert fixture.log.failure is None
        assert fixture.log.leader_epochs.latest_epoch == 4
        check(fixture, moment, [*EXPECTED[:offset], "later"])


def test_a_log_refuses_appends_until_its_truncation_is_completed() -> None:
    def history(fixture: ShortageFixture) -> None:
        try:
            fixture.log.truncate_to(2, NOW_MS, below_high_watermark=True)
        except KafkaError as error:
            assert is_descriptor_shortage(error)
        fixture.append("later", leader_epoch=4)

    shortages = 0
    for fixture, moment in runs_with_shortages(history, flushed_segments):
        if fixture.log.log_end_offset > 3:
            assert visible_values(fixture.log) == [*EXPECTED, "later"], (
                f"{moment}: the truncation had not begun"
            )
            continue
        shortages += 1
        check(fixture, moment, [*EXPECTED[:2], "later"])
    assert shortages > 5


def test_a_restart_of_the_log_at_an_offset_is_completed() -> None:
    def history(fixture: ShortageFixture) -> None:
        fixture.retry(lambda: fixture.log.truncate_fully_and_start_at(100, NOW_MS))
        fixture.append("hundred", leader_epoch=4)

    for fixture, moment in runs_with_shortages(history, flushed_segments):
        assert (fixture.log.log_start_offset, fixture.log.log_end_offset) == (100, 101), moment
        check(fixture, moment, ["hundred"])


def test_a_restart_after_remote_records_is_completed() -> None:
    def history(fixture: ShortageFixture) -> None:
        snapshot = encode_snapshot([ProducerEntry(producer_id=5, producer_epoch=0, last_timestamp=NOW_MS)])
        fixture.retry(
            lambda: fixture.log.restart_from_remote(
                RemoteState(
                    log_start_offset=2,
                    local_log_start_offset=50,
                    leader_epochs=[EpochEntry(0, 2), EpochEntry(3, 6)],
                    producer_snapshot=snapshot,
                ),
                NOW_MS,
            )
        )
        fixture.append("fifty", leader_epoch=4)

    for fixture, moment in runs_with_shortages(history, flushed_segments, TIERED):
        log = fixture.log
        assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (2, 50, 51), moment
        assert values_of(log, 50) == ["fifty"], moment
        assert set(log.producers.producers) == {5}, moment
        fixture.restart()
        again = fixture.log
        assert (again.log_start_offset, again.local_log_start_offset) == (2, 50), moment
        assert again.leader_epochs.entries == [EpochEntry(0, 2), EpochEntry(3, 6), EpochEntry(4, 50)], moment
        assert (values_of(again, 50), set(again.producers.producers)) == (["fifty"], {5}), moment


def test_retention_and_file_deletion_are_completed_later() -> None:
    def history(fixture: ShortageFixture) -> None:
        fixture.log.update_config(replace(fixture.config, retention_bytes=400))
        for _ in range(5):
            run_steps(fixture.manager.maintenance.apply_retention(NOW_MS))
            fixture.check_online()
        for number in range(5):
            for work in fixture.manager.maintenance.planned_removals(NOW_MS + 60_000 * (number + 1)):
                try:
                    work.run()
                except OSError as error:
                    fixture.manager.maintenance.work_failed(work, error)

    for fixture, moment in runs_with_shortages(history, flushed_segments):
        assert fixture.log.log_start_offset > 0, moment
        names = fixture.disk.listdir("/a/events-0")
        assert not [name for name in names if name.endswith(".deleted")], moment
        fixture.disk.fsync_dir("/a/events-0")
        check(fixture, moment, EXPECTED[fixture.log.log_start_offset :])


def test_a_partition_is_deleted_and_recreated() -> None:
    def history(fixture: ShortageFixture) -> None:
        fixture.checkpoint_all()
        (deletion,) = fixture.manager.planned_deletions([EVENTS], NOW_MS)
        fixture.retry(deletion.run)
        fixture.manager.on_deleted(deletion, None)
        creation = fixture.manager.planned_creation(EVENTS, TOPIC_ID, SMALL, NOW_MS)
        fixture.manager.on_created(creation, fixture.retry(creation.run))
        fixture.append("new")
        for number in range(5):
            for work in fixture.manager.maintenance.planned_removals(NOW_MS + 60_000 * (number + 1)):
                try:
                    work.run()
                except OSError as error:
                    fixture.manager.maintenance.work_failed(work, error)

    for fixture, moment in runs_with_shortages(history, flushed_segments):
        assert not [name for name in fixture.disk.listdir("/a") if name.endswith("-delete")], moment
        check(fixture, moment, ["new"])


def test_a_restart_recovers_files_that_could_not_be_closed() -> None:
    def history(fixture: ShortageFixture) -> None:
        fixture.restart()
        fixture.append("more", leader_epoch=3)
        fixture.restart()

    for fixture, moment in runs_with_shortages(history, flushed_segments):
        check(fixture, moment, [*EXPECTED, "more"])


def test_compaction_is_postponed_or_completed() -> None:
    def prepare(fixture: ShortageFixture) -> None:
        fixture.create()
        for value in "abcd":
            append_keyed(fixture.log, ("k", value))
            roll(fixture.log)

    def history(fixture: ShortageFixture) -> None:
        while True:
            try:
                # As the cleaner does.
                if fixture.log.failure is None and len(fixture.log.segments) > 2:
                    compact(fixture.log)
            except (OSError, KafkaError) as error:
                assert is_descriptor_shortage(error), error
            fixture.check_online()
            if len(fixture.log.segments) == 2:
                break

    for fixture, moment in runs_with_shortages(history, prepare, COMPACTED):
        assert [value for value in values_of(fixture.log) if value] == ["d"], moment
        assert fixture.manager.get(TopicPartition("events", 0)) is fixture.log
        check(fixture, moment, ["d"])
