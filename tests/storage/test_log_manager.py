"""All logs of a node over several directories."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.ids import TopicPartition
from storage.config import LogConfig
from storage.config_definition import ConfigError
from storage.log import PartitionLog
from storage.log_directory import CheckpointKind
from storage.log_manager import LogManager, PartitionSize
from tests.support.crash_fs import CrashFileSystem
from tests.support.crash_images import Survival
from tests.support.log_checks import check_log
from tests.support.logs import NOW_MS, append, batch, values_of

TOPIC_ID = UUID(int=1)
EVENTS = TopicPartition("events", 0)
CONFIG = LogConfig()


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


def started(disk: CrashFileSystem, *dirs: str, now_ms: int = NOW_MS, **options: Any) -> LogManager:
    ids = count(1)
    manager = LogManager(disk, dirs or ("/a", "/b"), new_id=lambda: UUID(int=next(ids)), **options)
    manager.start(now_ms)
    return manager


def create(manager: LogManager, name: str = "events", partition: int = 0, **options: Any) -> PartitionLog:
    return manager.get_or_create(TopicPartition(name, partition), TOPIC_ID, CONFIG, NOW_MS, **options)


def found(manager: LogManager, topic_partition: TopicPartition = EVENTS) -> PartitionLog:
    log = manager.get(topic_partition)
    assert log is not None
    return log


class TestStartsThatFail:
    """What a start leaves that came to an end half-way, by a fault or because it was told to stop."""

    def fail_at_b(self, topic: str) -> LogConfig:
        if topic == "b":
            raise ValueError("settings that mean nothing")
        return CONFIG

    def test_logs_that_nobody_looked_at_are_not_called_clean_and_keep_their_checkpoints(
        self, disk: CrashFileSystem
    ) -> None:
        manager = started(disk, "/a")
        for name in ("a", "b", "c"):
            append(create(manager, name), "1")
            append(create(manager, name), "2")
            create(manager, name).advance_high_watermark(2)
            create(manager, name).advance_log_start_offset(1)
        manager.shutdown(NOW_MS)
        failing = LogManager(disk, ["/a"])
        with pytest.raises(ValueError, match="mean nothing"):
            failing.start(NOW_MS, self.fail_at_b)
        failing.shutdown(NOW_MS)
        assert not disk.exists("/a/.kafka_cleanshutdown")
        manager = started(disk, "/a")
        for name in ("a", "b", "c"):
            log = found(manager, TopicPartition(name, 0))
            assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1, 2, 2), name


class TestPlacement:
    """Where partitions are made and found."""

    def test_a_new_partition_goes_to_the_directory_with_the_fewest(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a", "/b", "/c")
        for partition in range(7):
            create(manager, partition=partition)
        sizes = [len(directory.logs) for directory in manager.directories]
        assert sizes == [3, 2, 2]
        manager.delete(TopicPartition("events", 1), NOW_MS)
        assert create(manager, "other").directory == "/b/other-0"

    def test_a_partition_is_made_once(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        log = create(manager)
        config = replace(CONFIG, retention_ms=5)
        assert manager.get_or_create(EVENTS, TOPIC_ID, config, NOW_MS) is log
        assert log.config is config

    def test_everything_is_found_again(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        for partition in range(4):
            append(create(manager, "a.b-c", partition), str(partition))
        create(manager, "empty")
        manager.shutdown(NOW_MS)
        manager = started(disk)
        assert sorted(str(log.topic_partition) for log in manager.logs) == [
            *(f"a.b-c-{partition}" for partition in range(4)),
            "empty-0",
        ]
        for partition in range(4):
            log = found(manager, TopicPartition("a.b-c", partition))
            assert values_of(log) == [str(partition)]
            assert log.topic_id == TOPIC_ID
            assert log.high_watermark == 1

    def test_topics_are_opened_with_their_own_settings(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        create(manager)
        create(manager, "other")
        own = replace(CONFIG, cleanup_policy=("compact",))
        manager = LogManager(disk, ["/a", "/b"], replace(CONFIG, retention_ms=9))
        manager.start(NOW_MS, lambda topic: own if topic == "events" else CONFIG)
        assert found(manager).config is own
        assert found(manager, TopicPartition("other", 0)).config is CONFIG

    def test_the_metadata_log_is_somebody_elses(self, disk: CrashFileSystem) -> None:
        disk.makedirs("/a/__cluster_metadata-0")
        assert list(started(disk).logs) == []


class TestShutdown:
    """Clean and unclean ends."""

    def test_after_a_clean_shutdown_nothing_is_lost_and_nothing_is_recovered(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = started(disk)
        append(create(manager), "a", "b")
        manager.shutdown(NOW_MS, broker_epoch=5)
        after = disk.crash(Survival.LOSE_UNSYNCED)
        assert after.read("/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":5}'
        manager = started(after)
        log = found(manager)
        assert values_of(log) == ["a", "b"]
        assert (log.recovery_point, log.high_watermark) == (2, 2)
        assert not after.exists("/a/.kafka_cleanshutdown"), "the next start must know that this one crashed"
        assert not caplog.records

    def test_after_a_crash_the_checkpoints_say_where_to_begin(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        log = create(manager)
        append(log, "a", "b")
        log.flush(NOW_MS)
        manager.checkpoint_recovery_points()
        manager.checkpoint_high_watermarks()
        append(log, "lost")
        assert disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nevents 0 2\n"
        assert disk.read("/a/replication-offset-checkpoint") == b"0\n1\nevents 0 2\n"
        log = found(started(disk.crash(Survival.LOSE_UNSYNCED)))
        assert values_of(log) == ["a", "b"]
        assert (log.recovery_point, log.high_watermark) == (2, 2)

    def test_a_high_watermark_above_the_log_end_is_lowered_to_it(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        append(create(manager), "a")
        manager.checkpoint_high_watermarks()
        disk.open("/a/events-0/00000000000000000000.log", create=False).truncate(0)
        assert found(started(disk)).high_watermark == 0

    def test_checkpoints_are_written_only_when_they_change(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        append(create(manager), "a")
        manager.checkpoint_high_watermarks()
        before = disk.operation_count
        manager.checkpoint_high_watermarks()
        manager.checkpoint_log_start_offsets()
        assert disk.operation_count == before

    @pytest.mark.parametrize(
        "name",
        ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"],
    )
    def test_a_damaged_checkpoint_is_reported_and_counts_as_empty(
        self, disk: CrashFileSystem, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = started(disk)
        append(create(manager), "a")
        manager.shutdown(NOW_MS)
        disk.open(f"/a/{name}", create=True).append(b"rubbish\n")
        assert values_of(found(started(disk))) == ["a"]
        assert name in caplog.text


class TestDeletion:
    """Partitions that go out of use."""

    def test_a_deleted_partition_is_renamed_and_removed_later(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        append(create(manager), "a")
        manager.checkpoint_recovery_points()
        manager.delete(EVENTS, NOW_MS)
        assert manager.get(EVENTS) is None
        assert f"events-0.{1:032x}-delete" in disk.listdir("/a")
        assert b"events" not in disk.read("/a/recovery-point-offset-checkpoint")
        assert manager.delete_expired(NOW_MS + 59_999) == 0
        assert manager.delete_expired(NOW_MS + 60_000) == 1
        assert not [name for name in disk.listdir("/a") if name.startswith("events")]

    def test_deletion_is_finished_after_a_restart(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        create(manager)
        manager.delete(EVENTS, NOW_MS)
        manager = started(disk)
        assert manager.delete_expired(NOW_MS) == 1
        assert not [name for name in disk.listdir("/a") if name.startswith("events")]

    def test_a_topic_can_be_made_again_at_once(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a")
        append(create(manager), "old")
        manager.delete(EVENTS, NOW_MS)
        log = manager.get_or_create(EVENTS, UUID(int=2), CONFIG, NOW_MS)
        assert (log.log_end_offset, log.topic_id) == (0, UUID(int=2))
        assert values_of(log) == []

    def test_a_partition_of_an_older_topic_of_the_name_is_set_aside(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = started(disk, "/a")
        append(create(manager), "old")
        manager.shutdown(NOW_MS)
        manager = started(disk, "/a")
        log = manager.get_or_create(EVENTS, UUID(int=2), CONFIG, NOW_MS)
        assert log.log_end_offset == 0
        assert [name for name in disk.listdir("/a") if name.endswith("-stray")]
        assert str(TOPIC_ID) in caplog.text

    def test_a_partition_made_before_topic_ids_gets_one(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a")
        manager.get_or_create(EVENTS, None, CONFIG, NOW_MS)
        manager.shutdown(NOW_MS)
        manager = started(disk, "/a")
        assert create(manager).topic_id == TOPIC_ID
        assert disk.exists("/a/events-0/partition.metadata")

    def test_what_the_metadata_does_not_place_here_is_set_aside(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a")
        for name in ("kept", "unknown", "replaced"):
            create(manager, name)
        expected = {TopicPartition("kept", 0): TOPIC_ID, TopicPartition("replaced", 0): UUID(int=9)}
        strays = manager.set_strays_aside(expected, NOW_MS)
        assert sorted(topic for topic, _ in strays) == ["replaced", "unknown"]
        assert [log.topic_partition.topic for log in manager.logs] == ["kept"]
        assert len([name for name in disk.listdir("/a") if name.endswith("-stray")]) == 2

    def test_unknown_names_are_tolerated_and_reported(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in ("lost+found", "notes", "t-1.abc-stray", "t-2.abc-future"):
            disk.makedirs(f"/a/{name}")
        disk.open("/a/README", create=True)
        assert list(started(disk).logs) == []
        for name in ("lost+found", "notes", "t-1.abc-stray", "t-2.abc-future"):
            assert f"/a/{name}" in caplog.text
            assert disk.exists(f"/a/{name}")


class TestDamage:
    """Partitions and directories that cannot be used."""

    def damaged(self, disk: CrashFileSystem) -> LogManager:
        """`events-0` in /a has lost what had been flushed; `other-0` in /b is fine."""
        manager = started(disk)
        append(create(manager), "a")
        append(create(manager, "other"), "b")
        for log in manager.logs:
            log.flush(NOW_MS)
        manager.checkpoint_recovery_points()
        disk.flip_bit("/a/events-0/00000000000000000000.log", 65 * 8)
        return started(disk)

    def test_a_damaged_partition_is_reported_and_the_others_go_on(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = self.damaged(disk)
        assert "/a/events-0/00000000000000000000.log: at byte 0" in caplog.text
        assert values_of(found(manager, TopicPartition("other", 0))) == ["b"]
        with pytest.raises(KafkaError, match=r"00000000000000000000\.log") as caught:
            create(manager)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    def test_a_damaged_partition_keeps_its_checkpoint_and_comes_back_when_mended(
        self, disk: CrashFileSystem
    ) -> None:
        manager = self.damaged(disk)
        create(manager, "new")
        manager.checkpoint_recovery_points()
        manager.shutdown(NOW_MS)
        disk.flip_bit("/a/events-0/00000000000000000000.log", 65 * 8)
        assert values_of(found(started(disk))) == ["a"]

    def test_a_damaged_partition_can_be_deleted(self, disk: CrashFileSystem) -> None:
        manager = self.damaged(disk)
        manager.delete(EVENTS, NOW_MS)
        assert create(manager).log_end_offset == 0

    def test_a_partition_in_two_directories_is_refused(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        create(started(disk, "/a"))
        create(started(disk, "/b"))
        manager = started(disk, "/a", "/b")
        assert manager.get(EVENTS) is None
        with pytest.raises(KafkaError, match="is in /a and in /b"):
            create(manager)
        assert "is in /a and in /b" in caplog.text

    def test_a_damaged_partition_can_be_put_aside_and_made_anew(self, disk: CrashFileSystem) -> None:
        manager = self.damaged(disk)
        assert manager.set_damaged_aside(EVENTS, NOW_MS)
        assert create(manager).log_end_offset == 0
        assert any(name.endswith("-stray") for name in disk.listdir("/a"))
        assert not manager.set_damaged_aside(EVENTS, NOW_MS)

    def test_a_damaged_topic_id_of_a_flushed_partition_is_refused(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a")
        append(create(manager), "a")
        manager.shutdown(NOW_MS)
        disk.open("/a/events-0/partition.metadata", create=False).truncate(5)
        manager = started(disk, "/a")
        with pytest.raises(KafkaError, match=r"partition\.metadata"):
            create(manager)

    def test_a_directory_that_cannot_be_read_goes_offline_and_the_node_lives_on(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        disk.open("/b", create=True)
        manager = started(disk, "/a", "/b")
        assert "/b goes offline" in caplog.text
        assert create(manager).directory == "/a/events-0"
        with pytest.raises(KafkaError, match="/b, which is offline"):
            create(manager, "old", is_new=False)

    def test_without_any_directory_there_is_no_start(self, disk: CrashFileSystem) -> None:
        disk.open("/a", create=True)
        with pytest.raises(KafkaError, match="no log directory can be used: "):
            started(disk, "/a")

    def test_a_failed_flush_takes_the_directory_offline(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = started(disk)
        first, second = create(manager), create(manager, "other")
        append(first, "a")
        append(second, "b")
        disk.fail_next_fsync("/a/events-0")
        plan = first.flush_plan()
        try:
            plan.run()
        except KafkaError as error:
            manager.flush_failed(first, error)
        assert manager.get(EVENTS) is None
        assert found(manager, TopicPartition("other", 0)) is second
        assert "/a goes offline: fsync of /a/events-0" in caplog.text
        for refused in (lambda: append(first, "more"), lambda: create(manager)):
            with pytest.raises(KafkaError) as caught:
                refused()
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        manager.shutdown(NOW_MS)
        assert not disk.exists("/a/.kafka_cleanshutdown"), "what is in /a must be recovered"
        assert disk.exists("/b/.kafka_cleanshutdown")

    def test_a_log_that_failed_is_noticed_by_the_upkeep(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        log = create(manager)
        append(log, "a", "b")
        disk.fail_next_fsync(".log")
        with pytest.raises(KafkaError):
            log.truncate_to(1, below_high_watermark=True)
        assert [directory.path for directory in manager.take_failed_offline()] == ["/a"]
        assert manager.get(EVENTS) is None

    def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline(
        self, disk: CrashFileSystem
    ) -> None:
        manager = started(disk)
        append(create(manager), "a")
        disk.fail_next_fsync("/a/replication-offset-checkpoint")
        manager.checkpoint_high_watermarks()
        assert [directory.path for directory in manager.online_directories] == ["/b"]


class TestUpkeep:
    """What the scheduler calls."""

    def test_retention_of_one_log_does_not_hold_up_the_others(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = started(disk, "/a")
        for name in ("one", "two"):
            log = create(manager, name)
            log.update_config(replace(CONFIG, retention_ms=0))
            append(log, "a")
        disk.free_bytes = 0
        assert manager.apply_retention(NOW_MS + 1) == 0
        assert "retention of one-0" in caplog.text
        disk.free_bytes = None
        assert manager.apply_retention(NOW_MS + 1) == 2

    def test_logs_to_flush_are_those_that_are_due(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        idle, rolled = create(manager, "idle"), create(manager, "rolled")
        append(idle, "a")
        append(rolled, "a")
        rolled.roll(NOW_MS)
        append(rolled, "b")
        assert manager.logs_to_flush(NOW_MS) == [rolled]

    def test_idle_producers_are_forgotten(self, disk: CrashFileSystem) -> None:
        manager = started(disk, producer_id_expiration_ms=1_000)
        log = create(manager)
        append(log, "a", producer_id=1, producer_epoch=0, base_sequence=0)
        manager.remove_expired_producers(NOW_MS + 999)
        assert 1 in log.producers.producers
        manager.remove_expired_producers(NOW_MS + 1_000)
        assert 1 not in log.producers.producers

    def test_directories_are_described_with_their_partitions(self, disk: CrashFileSystem) -> None:
        manager = started(disk)
        log = create(manager)
        log.append_as_leader(batch(["a"]), 0, NOW_MS)
        first, second = manager.describe()
        assert (first.path, first.error_code) == ("/a", ErrorCode.NONE)
        assert first.partitions == [PartitionSize(EVENTS, log.size_bytes, 0)]
        assert first.total_bytes == disk.space("/a").total_bytes
        assert second.partitions == []
        manager.take_offline(manager.directories[0], "gone")
        assert manager.describe()[0] == ("/a", ErrorCode.KAFKA_STORAGE_ERROR, [], -1, -1)

    def test_a_log_start_is_written_down_where_it_is_not_the_first_segment(
        self, disk: CrashFileSystem
    ) -> None:
        manager = started(disk)
        log = create(manager)
        append(log, "a", "b", "c")
        log.advance_log_start_offset(2)
        manager.checkpoint_log_start_offsets()
        assert disk.read("/a/log-start-offset-checkpoint") == b"0\n1\nevents 0 2\n"
        again = found(started(disk))
        assert (again.log_start_offset, values_of(again)) == (2, ["c"])
        check_log(again)


@pytest.fixture(autouse=True)
def log_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


class TestTakingAway:
    """Partitions go out of use, many at a time and from directories that were away."""

    def test_deleting_a_topic_of_many_partitions_syncs_as_often_as_deleting_one(
        self, disk: CrashFileSystem
    ) -> None:
        manager = started(disk, "/a")
        gone = [TopicPartition("large", index) for index in range(40)]
        for topic_partition in (*gone, EVENTS):
            append(manager.get_or_create(topic_partition, TOPIC_ID, CONFIG, NOW_MS), "a")
        manager.checkpoint_recovery_points()
        manager.checkpoint_high_watermarks()
        before = disk.operation_count
        manager.delete_all(gone, NOW_MS)
        renames = len(gone)
        assert disk.operation_count - before <= renames + 20
        assert list(manager.logs) == [found(manager)]
        manager.shutdown(NOW_MS)
        assert [log.topic_partition for log in started(disk, "/a").logs] == [EVENTS]

    def test_a_deleted_topic_takes_its_damaged_partition_along(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a")
        append(create(manager), "a")
        manager.shutdown(NOW_MS)
        disk.open("/a/events-0/partition.metadata", create=False).truncate(5)
        manager = started(disk, "/a")
        manager.delete(EVENTS, NOW_MS)
        assert create(manager).log_end_offset == 0

    def test_a_deleted_topic_that_comes_back_with_its_disk_does_not_hide_the_new_one(
        self, disk: CrashFileSystem
    ) -> None:
        old, new = UUID(int=7), UUID(int=8)
        manager = started(disk, "/a")
        append(manager.get_or_create(EVENTS, old, CONFIG, NOW_MS), "old")
        manager.shutdown(NOW_MS)
        manager = started(disk, "/b")
        append(manager.get_or_create(EVENTS, new, CONFIG, NOW_MS), "new")
        manager.shutdown(NOW_MS)
        manager = started(disk, "/a", "/b")
        assert manager.set_strays_aside({EVENTS: new}, NOW_MS) == [EVENTS]
        log = manager.get_or_create(EVENTS, new, CONFIG, NOW_MS)
        assert log.directory == "/b/events-0"
        assert values_of(log) == ["new"]

    def test_a_partition_that_was_damaged_is_recovered_once_it_is_mended(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a")
        log = create(manager)
        append(log, "flushed")
        log.flush(NOW_MS)
        manager.checkpoint_recovery_points()
        whole = log.size_bytes
        append(log, "torn")
        segment = disk.open("/a/events-0/00000000000000000000.log", create=False)
        segment.truncate(segment.size() - 1)
        metadata = disk.open("/a/events-0/partition.metadata", create=False)
        text = metadata.pread(metadata.size(), 0)
        metadata.truncate(5)
        manager = started(disk, "/a")
        assert manager.get(EVENTS) is None
        manager.shutdown(NOW_MS)
        metadata = disk.open("/a/events-0/partition.metadata", create=False)
        metadata.truncate(0)
        metadata.append(text)
        manager = started(disk, "/a")
        assert found(manager).size_bytes == whole
        assert found(manager).log_end_offset == 1

    def test_kafka_15352_retention_of_many_logs_writes_one_checkpoint_before_any_file_goes(
        self, disk: CrashFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager = started(disk, "/a")
        config = replace(CONFIG, retention_ms=1_000)
        for partition in range(20):
            log = manager.get_or_create(TopicPartition("t", partition), TOPIC_ID, config, NOW_MS)
            append(log, "old")
        done: list[str] = []
        rename = disk.rename

        def noted(old: str, new: str) -> None:
            done.append("checkpoint" if new.endswith("log-start-offset-checkpoint") else "file")
            rename(old, new)

        monkeypatch.setattr(disk, "rename", noted)
        assert manager.apply_retention(NOW_MS + 2_000) == 20
        assert done[0] == "checkpoint"
        assert done.count("checkpoint") == 1
        assert {log.log_start_offset for log in manager.logs} == {1}

    def test_a_checkpoint_that_a_thread_writes_late_does_not_replace_a_newer_one(
        self, disk: CrashFileSystem
    ) -> None:
        manager = started(disk, "/a")
        log = create(manager)
        append(log, "a")
        append(log, "b")
        log.flush(NOW_MS)
        (late,) = manager.planned_checkpoints(CheckpointKind.RECOVERY_POINT)
        assert manager.planned_checkpoints(CheckpointKind.RECOVERY_POINT) == []
        log.truncate_to(1, NOW_MS, below_high_watermark=True)
        late.run()
        assert disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nevents 0 1\n"

    def test_a_failed_checkpoint_of_a_thread_takes_its_directory_offline(self, disk: CrashFileSystem) -> None:
        manager = started(disk, "/a")
        append(create(manager), "a")
        (work,) = manager.planned_checkpoints(CheckpointKind.HIGH_WATERMARK)
        disk.fail_next_fsync("replication-offset-checkpoint")
        with pytest.raises(KafkaError) as caught:
            work.run()
        manager.work_failed(work, caught.value)
        assert manager.online_directories == []


def test_a_node_whose_remote_storage_is_switched_off_does_not_open_tiered_logs() -> None:
    """They would start where their local part does, and remote storage would be emptied later."""
    disk = CrashFileSystem()
    config = replace(CONFIG, remote_storage_enable=True)
    first = LogManager(disk, ["/a"], config)
    first.start(NOW_MS)
    first.get_or_create(TopicPartition("t", 0), None, config, NOW_MS)
    first.shutdown(NOW_MS)
    with pytest.raises(ConfigError, match="topic t has remote"):
        LogManager(disk, ["/a"], config, remote_storage_system_enable=False).start(NOW_MS)


def test_the_log_start_of_a_tiered_log_is_in_the_checkpoint_wherever_its_segments_start() -> None:
    disk = CrashFileSystem()
    config = replace(CONFIG, remote_storage_enable=True)
    manager = LogManager(disk, ["/a"], config)
    manager.start(NOW_MS)
    manager.get_or_create(TopicPartition("t", 0), None, config, NOW_MS)
    manager.get_or_create(TopicPartition("u", 0), None, CONFIG, NOW_MS)
    manager.checkpoint_log_start_offsets()
    assert disk.read("/a/log-start-offset-checkpoint") == b"0\n1\nt 0 0\n"
