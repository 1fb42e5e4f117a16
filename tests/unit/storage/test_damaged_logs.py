"""Partitions with corrupt files, and log directories with a failed disk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import COMPACTED, append_keyed, compact, read_log, roll
from tests.support.logs.log_managers import (
    EVENTS,
    TOPIC_ID,
    create,
    delete_logs,
    existing_log,
    get_or_create_log,
    start_log_manager,
    write_checkpoint,
)
from tests.support.logs.partition_logs import append, values_of
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.steps import run_steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT
from tidelog.storage.log.opening import LogLocation
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


class TestDamage:
    """Partitions and directories that cannot be used."""

    def damage(self, disk: CrashFileSystem) -> LogManager:
        """Return a disk on which `events-0` in /a lost flushed records; `other-0` in /b is valid."""
        manager = start_log_manager(disk)
        append(create(manager), "a")
        append(create(manager, "other"), "b")
        for log in manager.logs:
            log.flush(NOW_MS)
        write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        disk.flip_bit("/a/events-0/00000000000000000000.log", 65 * 8)
        return start_log_manager(disk)

    def test_a_corrupt_partition_is_reported_and_others_are_loaded(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = self.damage(disk)
        assert "/a/events-0/00000000000000000000.log: at byte 0" in caplog.text
        assert values_of(existing_log(manager, TopicPartition("other", 0))) == ["b"]
        with pytest.raises(KafkaError, match=r"00000000000000000000\.log") as caught:
            create(manager)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    def test_a_corrupt_partition_keeps_its_checkpoint_until_it_is_repaired(
        self, disk: CrashFileSystem
    ) -> None:
        manager = self.damage(disk)
        create(manager, "new")
        write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        manager.shutdown(NOW_MS)
        disk.flip_bit("/a/events-0/00000000000000000000.log", 65 * 8)
        assert values_of(existing_log(start_log_manager(disk))) == ["a"]

    def test_a_corrupt_partition_can_be_deleted(self, disk: CrashFileSystem) -> None:
        manager = self.damage(disk)
        delete_logs(manager, [EVENTS], NOW_MS)
        assert create(manager).log_end_offset == 0

    def test_a_partition_in_two_directories_is_refused(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        create(start_log_manager(disk, "/a"))
        create(start_log_manager(disk, "/b"))
        manager = start_log_manager(disk, "/a", "/b")
        assert manager.get(EVENTS) is None
        with pytest.raises(KafkaError, match="is in /a and in /b"):
            create(manager)
        assert "is in /a and in /b" in caplog.text

    def test_a_corrupt_partition_can_be_quarantined_and_recreated(self, disk: CrashFileSystem) -> None:
        manager = self.damage(disk)
        assert manager.retire_damaged(EVENTS, NOW_MS)
        assert create(manager).log_end_offset == 0
        assert any(name.endswith("-stray") for name in disk.listdir("/a"))
        assert not manager.retire_damaged(EVENTS, NOW_MS)

    def test_a_corrupt_topic_id_of_a_flushed_partition_is_refused(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, "/a")
        append(create(manager), "a")
        manager.shutdown(NOW_MS)
        disk.open("/a/events-0/partition.metadata", create=False).truncate(5)
        manager = start_log_manager(disk, "/a")
        with pytest.raises(KafkaError, match=r"partition\.metadata"):
            create(manager)

    def test_an_unreadable_directory_goes_offline_and_the_node_continues(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        disk.open("/b", create=True)
        manager = start_log_manager(disk, "/a", "/b")
        assert "/b goes offline" in caplog.text
        assert create(manager).directory == "/a/events-0"
        with pytest.raises(KafkaError, match="/b, which is offline"):
            create(manager, "old", is_new=False)

    def test_a_node_without_a_directory_does_not_start(self, disk: CrashFileSystem) -> None:
        disk.open("/a", create=True)
        with pytest.raises(KafkaError, match="no log directory can be used: "):
            start_log_manager(disk, "/a")

    def test_a_failed_flush_takes_the_directory_offline(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = start_log_manager(disk)
        first, second = create(manager), create(manager, "other")
        append(first, "a")
        append(second, "b")
        disk.fail_next_fsync("/a/events-0")
        plan = first.durability.flush_plan()
        try:
            plan.run()
        except KafkaError as error:
            manager.directories.disk_failed(first, error)
        assert manager.get(EVENTS) is None
        assert existing_log(manager, TopicPartition("other", 0)) is second
        assert "/a goes offline: fsync of /a/events-0" in caplog.text
        for refused in (lambda: append(first, "more"), lambda: create(manager)):
            with pytest.raises(KafkaError) as caught:
                refused()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        manager.shutdown(NOW_MS)
        assert not disk.exists("/a/.kafka_cleanshutdown"), "the logs in /a must be recovered"
        assert disk.exists("/b/.kafka_cleanshutdown")

    def test_a_failed_log_is_detected_by_maintenance(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        log = create(manager)
        append(log, "a", "b")
        disk.fail_next_fsync(".log")
        with pytest.raises(KafkaError):
            log.truncate_to(1, below_high_watermark=True)
        assert [directory.path for directory in manager.directories.take_failed_offline()] == ["/a"]
        assert manager.get(EVENTS) is None

    def test_a_failed_checkpoint_write_takes_the_directory_offline(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a")
        disk.fail_next_fsync("/a/replication-offset-checkpoint")
        write_checkpoint(manager, CheckpointKind.HIGH_WATERMARK)
        assert [directory.path for directory in manager.directories.online] == ["/b"]

    def test_an_active_segment_without_its_batches_continues_without_their_index_entries(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = start_log_manager(disk, "/a")
        log = create(manager)
        append(log, "a", "b", timestamps=NOW_MS)
        manager.shutdown(NOW_MS)
        disk.open("/a/events-0/00000000000000000000.log", create=False).truncate(0)
        manager = start_log_manager(disk, "/a")
        assert "00000000000000000000.log is empty, but" in caplog.text
        log = existing_log(manager)
        append(log, "c", timestamps=NOW_MS - 5)
        manager.shutdown(NOW_MS)
        log = existing_log(start_log_manager(disk, "/a"))
        assert values_of(log) == ["c"]
        assert run_steps(log.timestamps.first_record_from(NOW_MS - 9)) == (NOW_MS - 5, 0, 0)

    @pytest.mark.parametrize("is_flushed", [False, True])
    def test_a_base_offset_beyond_its_segment_is_corruption_with_a_valid_checksum(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture, is_flushed: bool
    ) -> None:
        manager = start_log_manager(disk, "/a")
        log = create(manager)
        append(log, "a")
        append(create(manager, "other"), "b")
        end = log.segments.active.size_bytes
        append(log, "c")
        if is_flushed:
            log.flush(NOW_MS)
            write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        disk.flip_bit(log.segments.active.file.path, end * 8 + 17)
        manager = start_log_manager(disk, "/a")
        assert values_of(existing_log(manager, TopicPartition("other", 0))) == ["b"]
        assert f"at byte {end}: offset 2199023255553 is too far from 0" in caplog.text
        if is_flushed:
            assert manager.get(EVENTS) is None
        else:
            assert values_of(existing_log(manager)) == ["a"]

    def test_an_unexpected_error_at_opening_does_not_affect_other_partitions(
        self, disk: CrashFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a")
        append(create(manager, "other"), "b")
        manager.shutdown(NOW_MS)
        open_partition_log = PartitionLog.open

        def fail_for_events(location: LogLocation, *rest: Any, **options: Any) -> PartitionLog:
            assert "events" not in location.directory, "a bug"
            return open_partition_log(location, *rest, **options)

        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "open", fail_for_events)
            manager = start_log_manager(disk)
        with pytest.raises(KafkaError, match="a bug") as caught:
            create(manager)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(existing_log(manager, TopicPartition("other", 0))) == ["b"]

    def test_an_unexpected_error_at_closing_does_not_affect_other_logs(
        self, disk: CrashFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a")
        append(create(manager, "same", 1), "c")
        append(create(manager, "other"), "b")
        close = PartitionLog.close

        def fail_for_events(log: PartitionLog, **options: Any) -> None:
            assert "events" not in log.directory, "a bug"
            close(log, **options)

        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "close", fail_for_events)
            manager.shutdown(NOW_MS)
        assert not disk.exists("/a/.kafka_cleanshutdown")
        assert disk.exists("/b/.kafka_cleanshutdown")
        assert values_of(existing_log(start_log_manager(disk))) == ["a"]


def test_a_lost_recovery_point_loses_nothing_of_a_log_that_is_no_longer_compacted(
    disk: CrashFileSystem,
) -> None:
    manager = start_log_manager(disk)
    log = get_or_create_log(manager, EVENTS, TOPIC_ID, replace(COMPACTED, segment_bytes=100), NOW_MS)
    for records in ((("a", "1"),), (("b", "1"), ("a", "2")), (("c", "1"), ("b", "2")), (("d", "1"),)):
        append_keyed(log, *records)
        roll(log)
    compact(log)
    before = read_log(log)
    assert [record.offset for record in before] == [2, 3, 4, 5]
    manager.shutdown(NOW_MS)
    for name in (RECOVERY_POINT_CHECKPOINT, CLEAN_SHUTDOWN):
        disk.unlink(f"/a/{name}")
    reopened = existing_log(start_log_manager(disk))
    assert not reopened.config.is_compacted
    reopened.advance_high_watermark(reopened.log_end_offset)
    assert read_log(reopened) == before
