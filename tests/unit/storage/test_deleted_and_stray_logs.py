"""Deleted partitions, and stray partitions that the metadata does not assign to this node."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.log_managers import (
    CONFIG,
    EVENTS,
    TOPIC_ID,
    create,
    delete_logs,
    existing_log,
    get_or_create_log,
    remove_deleted_files,
    start_log_manager,
    write_checkpoint,
)
from tests.support.logs.partition_logs import append, values_of
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.steps import run_steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


class TestDeletion:
    """Deletion of partitions."""

    def test_a_deleted_partition_is_renamed_and_removed_later(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a")
        write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        delete_logs(manager, [EVENTS], NOW_MS)
        assert manager.get(EVENTS) is None
        assert f"events-0.{1:032x}-delete" in disk.listdir("/a")
        assert b"events" not in disk.read("/a/recovery-point-offset-checkpoint")
        assert remove_deleted_files(manager, NOW_MS + 59_999) == 0
        assert remove_deleted_files(manager, NOW_MS + 60_000) == 1
        assert not [name for name in disk.listdir("/a") if name.startswith("events")]

    def test_deletion_is_finished_after_a_restart(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        create(manager)
        delete_logs(manager, [EVENTS], NOW_MS)
        manager = start_log_manager(disk)
        assert remove_deleted_files(manager, NOW_MS) == 1
        assert not [name for name in disk.listdir("/a") if name.startswith("events")]

    def test_a_topic_can_be_recreated_at_once(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, "/a")
        append(create(manager), "old")
        delete_logs(manager, [EVENTS], NOW_MS)
        log = get_or_create_log(manager, EVENTS, UUID(int=2), CONFIG, NOW_MS)
        assert (log.log_end_offset, log.topic_id) == (0, UUID(int=2))
        assert values_of(log) == []

    def test_a_partition_of_a_deleted_topic_with_the_name_is_renamed_as_stray(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = start_log_manager(disk, "/a")
        append(create(manager), "old")
        manager.shutdown(NOW_MS)
        manager = start_log_manager(disk, "/a")
        log = get_or_create_log(manager, EVENTS, UUID(int=2), CONFIG, NOW_MS)
        assert log.log_end_offset == 0
        assert [name for name in disk.listdir("/a") if name.endswith("-stray")]
        assert str(TOPIC_ID) in caplog.text

    def test_a_partition_without_topic_id_gets_one(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, "/a")
        get_or_create_log(manager, EVENTS, None, CONFIG, NOW_MS)
        manager.shutdown(NOW_MS)
        manager = start_log_manager(disk, "/a")
        assert create(manager).topic_id == TOPIC_ID
        assert disk.exists("/a/events-0/partition.metadata")

    def test_partitions_that_are_not_assigned_to_the_node_become_stray(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, "/a")
        for name in ("kept", "unknown", "replaced"):
            create(manager, name)
        expected = {TopicPartition("kept", 0): TOPIC_ID, TopicPartition("replaced", 0): UUID(int=9)}
        strays = manager.retire_strays(expected, NOW_MS)
        assert sorted(topic for topic, _ in strays) == ["replaced", "unknown"]
        assert [log.topic_partition.topic for log in manager.logs] == ["kept"]
        assert len([name for name in disk.listdir("/a") if name.endswith("-stray")]) == 2

    def test_unknown_files_are_ignored_and_reported(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in ("lost+found", "notes", "t-1.abc-stray", "t-2.abc-future"):
            disk.makedirs(f"/a/{name}")
        disk.open("/a/README", create=True)
        assert list(start_log_manager(disk).logs) == []
        for name in ("lost+found", "notes", "t-1.abc-stray", "t-2.abc-future"):
            assert f"/a/{name}" in caplog.text
            assert disk.exists(f"/a/{name}")


@pytest.fixture(autouse=True)
def log_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


class TestRemovalOfManyPartitions:
    """Removal of many partitions, also from directories that were offline."""

    def test_deleting_many_partitions_needs_as_many_syncs_as_deleting_one(
        self, disk: CrashFileSystem
    ) -> None:
        manager = start_log_manager(disk, "/a")
        deleted_partitions = [TopicPartition("large", index) for index in range(40)]
        for topic_partition in (*deleted_partitions, EVENTS):
            append(get_or_create_log(manager, topic_partition, TOPIC_ID, CONFIG, NOW_MS), "a")
        write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        write_checkpoint(manager, CheckpointKind.HIGH_WATERMARK)
        before = disk.operation_count
        delete_logs(manager, deleted_partitions, NOW_MS)
        renames = len(deleted_partitions)
        assert disk.operation_count - before <= renames + 20
        assert list(manager.logs) == [existing_log(manager)]
        manager.shutdown(NOW_MS)
        assert [log.topic_partition for log in start_log_manager(disk, "/a").logs] == [EVENTS]

    def test_a_corrupt_partition_of_a_deleted_topic_is_deleted(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, "/a")
        append(create(manager), "a")
        manager.shutdown(NOW_MS)
        disk.open("/a/events-0/partition.metadata", create=False).truncate(5)
        manager = start_log_manager(disk, "/a")
        delete_logs(manager, [EVENTS], NOW_MS)
        assert create(manager).log_end_offset == 0

    def test_a_deleted_topic_on_a_returning_disk_does_not_hide_the_new_one(
        self, disk: CrashFileSystem
    ) -> None:
        old, new = UUID(int=7), UUID(int=8)
        manager = start_log_manager(disk, "/a")
        append(get_or_create_log(manager, EVENTS, old, CONFIG, NOW_MS), "old")
        manager.shutdown(NOW_MS)
        manager = start_log_manager(disk, "/b")
        append(get_or_create_log(manager, EVENTS, new, CONFIG, NOW_MS), "new")
        manager.shutdown(NOW_MS)
        manager = start_log_manager(disk, "/a", "/b")
        assert manager.retire_strays({EVENTS: new}, NOW_MS) == [EVENTS]
        log = get_or_create_log(manager, EVENTS, new, CONFIG, NOW_MS)
        assert log.directory == "/b/events-0"
        assert values_of(log) == ["new"]

    def test_a_repaired_partition_is_recovered(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, "/a")
        log = create(manager)
        append(log, "flushed")
        log.flush(NOW_MS)
        write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        whole = log.size_bytes
        append(log, "torn")
        segment = disk.open("/a/events-0/00000000000000000000.log", create=False)
        segment.truncate(segment.size() - 1)
        metadata = disk.open("/a/events-0/partition.metadata", create=False)
        text = metadata.pread(metadata.size(), 0)
        metadata.truncate(5)
        manager = start_log_manager(disk, "/a")
        assert manager.get(EVENTS) is None
        manager.shutdown(NOW_MS)
        metadata = disk.open("/a/events-0/partition.metadata", create=False)
        metadata.truncate(0)
        metadata.append(text)
        manager = start_log_manager(disk, "/a")
        assert existing_log(manager).size_bytes == whole
        assert existing_log(manager).log_end_offset == 1

    def test_kafka_15352_retention_of_many_logs_writes_one_checkpoint_before_any_deletion(
        self, disk: CrashFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager = start_log_manager(disk, "/a")
        config = replace(CONFIG, retention_ms=1_000)
        for partition in range(20):
            log = get_or_create_log(manager, TopicPartition("t", partition), TOPIC_ID, config, NOW_MS)
            append(log, "old")
        done: list[str] = []
        rename = disk.rename

        def record_and_rename(old: str, new: str) -> None:
            done.append("checkpoint" if new.endswith("log-start-offset-checkpoint") else "file")
            rename(old, new)

        monkeypatch.setattr(disk, "rename", record_and_rename)
        assert run_steps(manager.maintenance.apply_retention(NOW_MS + 2_000)) == 20
        assert done[0] == "checkpoint"
        assert done.count("checkpoint") == 1
        assert {log.log_start_offset for log in manager.logs} == {1}

    def test_a_delayed_checkpoint_of_a_thread_does_not_replace_a_newer_one(
        self, disk: CrashFileSystem
    ) -> None:
        manager = start_log_manager(disk, "/a")
        log = create(manager)
        append(log, "a")
        append(log, "b")
        log.flush(NOW_MS)
        (late,) = manager.maintenance.planned_checkpoints(CheckpointKind.RECOVERY_POINT)
        log.truncate_to(1, NOW_MS, below_high_watermark=True)
        late.run()
        assert disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nevents 0 1\n"
        assert manager.maintenance.planned_checkpoints(CheckpointKind.RECOVERY_POINT) == []

    def test_a_failed_checkpoint_of_a_thread_takes_its_directory_offline(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, "/a")
        append(create(manager), "a")
        (work,) = manager.maintenance.planned_checkpoints(CheckpointKind.HIGH_WATERMARK)
        disk.fail_next_fsync("replication-offset-checkpoint")
        with pytest.raises(KafkaError) as caught:
            work.run()
        manager.maintenance.work_failed(work, caught.value)
        assert manager.directories.online == []
