"""The logs of a node in several directories: start, placement, shutdown, maintenance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.log_checks import check_log
from tests.support.logs.log_managers import (
    CONFIG,
    EVENTS,
    TOPIC_ID,
    create,
    delete_logs,
    existing_log,
    get_or_create_log,
    new_log_manager,
    start_log_manager,
    write_checkpoint,
)
from tests.support.logs.partition_logs import append, batch, values_of
from tidelog.base.config_definition import ConfigError
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.steps import run_steps
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_dir_description import PartitionSize, describe_log_dir
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


class TestStartsThatFail:
    """A start that ends early, by an error or by a stop."""

    def fail_at_b(self, topic: str) -> LogConfig:
        if topic == "b":
            raise ValueError("invalid settings")
        return CONFIG

    def test_logs_that_were_not_loaded_are_not_marked_clean_and_keep_their_checkpoints(
        self, disk: CrashFileSystem
    ) -> None:
        manager = start_log_manager(disk, "/a")
        for name in ("a", "b", "c"):
            append(create(manager, name), "1")
            append(create(manager, name), "2")
            create(manager, name).advance_high_watermark(2)
            create(manager, name).advance_log_start_offset(1)
        manager.shutdown(NOW_MS)
        failing = new_log_manager(disk, ["/a"])
        with pytest.raises(ValueError, match="invalid settings"):
            failing.start(NOW_MS, self.fail_at_b)
        failing.shutdown(NOW_MS)
        assert not disk.exists("/a/.kafka_cleanshutdown")
        manager = start_log_manager(disk, "/a")
        for name in ("a", "b", "c"):
            log = existing_log(manager, TopicPartition(name, 0))
            assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1, 2, 2), name


class TestPlacement:
    """Placement and discovery of partitions."""

    def test_a_new_partition_is_placed_in_the_directory_with_the_fewest_partitions(
        self, disk: CrashFileSystem
    ) -> None:
        manager = start_log_manager(disk, "/a", "/b", "/c")
        for partition in range(7):
            create(manager, partition=partition)
        sizes = [len(directory.logs) for directory in manager.directories]
        assert sizes == [3, 2, 2]
        delete_logs(manager, [TopicPartition("events", 1)], NOW_MS)
        assert create(manager, "other").directory == "/b/other-0"

    def test_a_cordoned_directory_gets_a_new_partition_only_without_another(
        self, disk: CrashFileSystem
    ) -> None:
        manager = start_log_manager(disk, "/a", "/b")
        create(manager, "old")
        manager.cordon(frozenset({"/b"}))
        assert [create(manager, partition=each).directory[:2] for each in range(3)] == ["/a"] * 3
        manager.cordon(frozenset({"/a", "/b"}))
        assert create(manager, "anyway").directory == "/b/anyway-0"

    def test_a_partition_is_created_once(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        log = create(manager)
        config = replace(CONFIG, retention_ms=5)
        assert get_or_create_log(manager, EVENTS, TOPIC_ID, config, NOW_MS) is log
        assert log.config is config

    def test_logs_are_reopened_after_a_restart(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        for partition in range(4):
            append(create(manager, "a.b-c", partition), str(partition))
        create(manager, "empty")
        manager.shutdown(NOW_MS)
        manager = start_log_manager(disk)
        assert sorted(str(log.topic_partition) for log in manager.logs) == [
            *(f"a.b-c-{partition}" for partition in range(4)),
            "empty-0",
        ]
        for partition in range(4):
            log = existing_log(manager, TopicPartition("a.b-c", partition))
            assert values_of(log) == [str(partition)]
            assert log.topic_id == TOPIC_ID
            assert log.high_watermark == 1

    def test_logs_are_opened_with_their_topic_configs(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        create(manager)
        create(manager, "other")
        own = replace(CONFIG, cleanup_policy=("compact",))
        manager = new_log_manager(disk, ["/a", "/b"], replace(CONFIG, retention_ms=9))
        manager.start(NOW_MS, lambda topic: own if topic == "events" else CONFIG)
        assert existing_log(manager).config is own
        assert existing_log(manager, TopicPartition("other", 0)).config is CONFIG

    def test_the_metadata_log_is_not_a_partition_of_the_log_manager(self, disk: CrashFileSystem) -> None:
        disk.makedirs("/a/__cluster_metadata-0")
        assert list(start_log_manager(disk).logs) == []


class TestShutdown:
    """Clean and unclean shutdown."""

    def test_after_a_clean_shutdown_no_log_is_recovered(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a", "b")
        manager.shutdown(NOW_MS, broker_epoch=5)
        after = disk.crash(Survival.LOSE_UNSYNCED)
        assert after.read("/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":5}'
        manager = start_log_manager(after)
        log = existing_log(manager)
        assert values_of(log) == ["a", "b"]
        assert (log.durability.recovery_point, log.high_watermark) == (2, 2)
        assert not after.exists("/a/.kafka_cleanshutdown"), "the next start must know that this one crashed"
        assert not caplog.records

    def test_after_a_crash_recovery_starts_at_the_checkpoints(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        log = create(manager)
        append(log, "a", "b")
        log.flush(NOW_MS)
        write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        write_checkpoint(manager, CheckpointKind.HIGH_WATERMARK)
        append(log, "lost")
        assert disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nevents 0 2\n"
        assert disk.read("/a/replication-offset-checkpoint") == b"0\n1\nevents 0 2\n"
        log = existing_log(start_log_manager(disk.crash(Survival.LOSE_UNSYNCED)))
        assert values_of(log) == ["a", "b"]
        assert (log.durability.recovery_point, log.high_watermark) == (2, 2)

    def test_a_high_watermark_above_the_log_end_is_lowered_to_it(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a")
        write_checkpoint(manager, CheckpointKind.HIGH_WATERMARK)
        disk.open("/a/events-0/00000000000000000000.log", create=False).truncate(0)
        assert existing_log(start_log_manager(disk)).high_watermark == 0

    def test_checkpoints_are_written_only_when_they_change(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a")
        write_checkpoint(manager, CheckpointKind.HIGH_WATERMARK)
        before = disk.operation_count
        write_checkpoint(manager, CheckpointKind.HIGH_WATERMARK)
        write_checkpoint(manager, CheckpointKind.LOG_START_OFFSET)
        assert disk.operation_count == before

    @pytest.mark.parametrize(
        "name",
        ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"],
    )
    def test_a_corrupt_checkpoint_is_reported_and_ignored(
        self, disk: CrashFileSystem, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = start_log_manager(disk)
        append(create(manager), "a")
        manager.shutdown(NOW_MS)
        disk.open(f"/a/{name}", create=True).append(b"rubbish\n")
        assert values_of(existing_log(start_log_manager(disk))) == ["a"]
        assert name in caplog.text


class TestUpkeep:
    """Periodic jobs."""

    def test_retention_of_a_failing_log_does_not_delay_others(
        self, disk: CrashFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = start_log_manager(disk, "/a")
        for name in ("one", "two"):
            log = create(manager, name)
            log.update_config(replace(CONFIG, retention_ms=0))
            append(log, "a")
        disk.free_bytes = 0
        assert run_steps(manager.maintenance.apply_retention(NOW_MS + 1)) == 0
        assert "retention of one-0" in caplog.text
        disk.free_bytes = None
        assert run_steps(manager.maintenance.apply_retention(NOW_MS + 1)) == 2

    def test_logs_are_flushed_by_flush_ms(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        idle, rolled = create(manager, "idle"), create(manager, "rolled")
        append(idle, "a")
        append(rolled, "a")
        rolled.roll(NOW_MS)
        append(rolled, "b")
        flushed: list[PartitionLog] = []
        run_steps(manager.maintenance.request_flushes(flushed.append, NOW_MS))
        assert flushed == [rolled]

    def test_inactive_producers_expire(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk, producer_id_expiration_ms=1_000)
        log = create(manager)
        append(log, "a", producer_id=1, producer_epoch=0, base_sequence=0)
        manager.maintenance.remove_expired_producers(NOW_MS + 999)
        assert 1 in log.producers.producers
        manager.maintenance.remove_expired_producers(NOW_MS + 1_000)
        assert 1 not in log.producers.producers

    def test_directories_are_described_with_their_partitions(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        log = create(manager)
        log.append_as_leader(batch(["a"]), 0, NOW_MS)
        first, second = (run_steps(describe_log_dir(each)) for each in manager.directories)
        assert (first.path, first.error_code) == ("/a", ErrorCode.NONE)
        assert first.partitions == [PartitionSize(EVENTS, log.size_bytes, 0)]
        assert first.total_bytes == disk.space("/a").total_bytes
        assert second.partitions == []
        manager.directories.take_offline(manager.directories[0], "gone")
        assert run_steps(describe_log_dir(manager.directories[0])) == (
            "/a",
            ErrorCode.KAFKA_STORAGE_ERROR,
            [],
            -1,
            -1,
        )

    def test_a_log_start_is_checkpointed_unless_it_is_the_first_segment(self, disk: CrashFileSystem) -> None:
        manager = start_log_manager(disk)
        log = create(manager)
        append(log, "a", "b", "c")
        log.advance_log_start_offset(2)
        write_checkpoint(manager, CheckpointKind.LOG_START_OFFSET)
        assert disk.read("/a/log-start-offset-checkpoint") == b"0\n1\nevents 0 2\n"
        again = existing_log(start_log_manager(disk))
        assert (again.log_start_offset, values_of(again)) == (2, ["c"])
        check_log(again)


def test_a_node_without_remote_storage_does_not_open_tiered_logs() -> None:
    """They would start at their local log start, and remote segments would be deleted later."""
    disk = CrashFileSystem()
    config = replace(CONFIG, remote_storage_enable=True)
    first = new_log_manager(disk, ["/a"], config)
    first.start(NOW_MS)
    get_or_create_log(first, TopicPartition("t", 0), None, config, NOW_MS)
    first.shutdown(NOW_MS)
    with pytest.raises(ConfigError, match="topic t has remote"):
        new_log_manager(disk, ["/a"], config, remote_storage_system_enable=False).start(NOW_MS)


def test_the_log_start_of_a_tiered_log_is_always_checkpointed() -> None:
    disk = CrashFileSystem()
    config = replace(CONFIG, remote_storage_enable=True)
    manager = new_log_manager(disk, ["/a"], config)
    manager.start(NOW_MS)
    get_or_create_log(manager, TopicPartition("t", 0), None, config, NOW_MS)
    get_or_create_log(manager, TopicPartition("u", 0), None, CONFIG, NOW_MS)
    write_checkpoint(manager, CheckpointKind.LOG_START_OFFSET)
    assert disk.read("/a/log-start-offset-checkpoint") == b"0\n1\nt 0 0\n"
