"""The metadata manager with a topic in memory."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.tier.metadata_manager import CONFIG, copy, manager_on, remove, run_manager
from tests.support.tier.metadata_managers import metadata_topic_config
from tests.support.tier.metadata_topic import MemoryReader, MemoryTopic
from tests.support.tier.segment_metadata import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    copy_start,
    deletion,
    step,
)
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.remote.metadata.log_ports import LogBounds, WrongMetadataTopic
from tidelog.remote.metadata.record_codec import encode_event
from tidelog.remote.metadata.snapshot_files import SnapshotFiles
from tidelog.remote.metadata.topic_based import TopicBasedRemoteLogMetadataManager
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteState, TopicIdPartition
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import Survival

OTHER = TopicIdPartition(UUID(int=0xB0B), "ebb", 3)


async def test_a_write_is_visible_when_it_has_completed() -> None:
    async with run_manager(MemoryTopic(1), PARTITION) as manager:
        for number in range(5):
            await copy(manager, number)
            assert manager.highest_offset_for_epoch(PARTITION, 0) == number * 100 + 99
        await remove(manager, 0)
        assert manager.remote_log_segment_metadata(PARTITION, 0, 50) is None


async def test_two_nodes_read_each_others_writes() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as one, run_manager(topic, PARTITION) as two:
        await copy(one, 0)
        await eventually(lambda: two.highest_offset_for_epoch(PARTITION, 0) == 99)
        await copy(two, 1)
        await eventually(lambda: one.highest_offset_for_epoch(PARTITION, 0) == 199)


async def test_an_added_partition_is_replayed_while_others_continue() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION, OTHER) as past:
        for number in range(10):
            await copy(past, number)
            await copy(past, number, OTHER)
    async with run_manager(topic, PARTITION) as manager:
        manager.on_partition_leadership_changes([], [OTHER])
        with pytest.raises(RemoteMetadataNotReady):
            manager.highest_offset_for_epoch(OTHER, 0)
        await copy(manager, 10)
        await eventually(lambda: manager.is_ready(OTHER))
        assert manager.highest_offset_for_epoch(OTHER, 0) == 999
        assert len(list(manager.list_remote_log_segments(PARTITION))) == 11
        manager.on_stop_partitions([OTHER])
        with pytest.raises(RemoteMetadataError, match="not assigned to this node"):
            manager.highest_offset_for_epoch(OTHER, 0)
        await copy(manager, 11)


async def test_partitions_added_one_after_another_all_catch_up() -> None:
    topic = MemoryTopic(1)
    partitions = [TopicIdPartition(UUID(int=900 + number), "many", number) for number in range(6)]
    async with run_manager(topic, *partitions) as past:
        for partition in partitions:
            for number in range(3):
                await copy(past, number, partition)
    async with run_manager(topic) as manager:
        for partition in partitions:
            manager.on_partition_leadership_changes([partition], [])
            await asyncio.sleep(0)
        await eventually(lambda: all(map(manager.is_ready, partitions)))
        for partition in partitions:
            assert len(list(manager.list_remote_log_segments(partition, 0))) == 3
            assert manager.highest_offset_for_epoch(partition, 0) == 299


async def test_after_the_catch_up_only_one_reader_fetches() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await copy(manager, 0)
        assert list(topic.fetching.values()) == [frozenset({0})]
        manager.on_partition_leadership_changes([OTHER], [])
        await eventually(lambda: manager.is_ready(OTHER))
        await eventually(lambda: len(topic.fetching) == 1)
        manager.on_stop_partitions([PARTITION, OTHER])
        await eventually(lambda: not topic.fetching)


async def test_an_invalid_transition_is_refused_before_the_write() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await copy(manager, 0)
        written = len(topic.logs[0])
        for update in (step(0, DELETED), step(1, FINISHED)):
            with pytest.raises(RemoteMetadataError):
                await manager.update_remote_log_segment_metadata(update)
        with pytest.raises(RemoteMetadataError, match="not assigned to this node"):
            await manager.add_remote_log_segment_metadata(copy_start(0, 0, 9, partition=OTHER))
        assert len(topic.logs[0]) == written


async def test_the_later_of_two_conflicting_leaders_is_reported() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await manager.add_remote_log_segment_metadata(copy_start(0, 0, 99))
        topic.put(0, encode_event(step(0, DELETING)))
        with pytest.raises(RemoteMetadataError, match="ILLEGAL_MOVE"):
            await manager.update_remote_log_segment_metadata(step(0, FINISHED))


async def test_unreadable_records_are_skipped() -> None:
    topic = MemoryTopic(1)
    topic.put(0, b"")
    topic.put(0, b"\x01\x63\x00")
    async with run_manager(topic, PARTITION) as manager:
        topic.put(0, b"\xff" * 40)
        await copy(manager, 0)
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 99


async def test_custom_metadata_is_repeated_in_every_update_for_kafka() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await manager.add_remote_log_segment_metadata(copy_start(0, 0, 99))
        await manager.update_remote_log_segment_metadata(step(0, FINISHED, custom_metadata=b"here"))
        await manager.update_remote_log_segment_metadata(step(0, DELETING))
        assert topic.logs[0][-1] == encode_event(step(0, DELETING, custom_metadata=b"here"))


async def test_a_partition_deletion_is_known_on_every_node_of_its_metadata_partition() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as one, run_manager(topic, OTHER) as two:
        marked = deletion(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
        await one.put_remote_partition_delete_metadata(marked)
        assert one.partition_deletions() == [marked]
        await eventually(lambda: two.partition_deletions() == [marked])
        await one.put_remote_partition_delete_metadata(
            deletion(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)
        )
        await eventually(lambda: not two.partition_deletions())


async def test_the_metadata_topic_may_be_temporarily_unavailable() -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await copy(manager, 0)
        topic.is_down = True
        with pytest.raises(RemoteMetadataError, match="cannot write"):
            await copy(manager, 1)
        openings = topic.openings
        topic.is_down = False
        await copy(manager, 2)
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 299
        assert topic.openings >= openings


async def test_a_write_that_is_not_read_back_in_time_fails() -> None:
    topic = MemoryTopic(1)
    config = metadata_topic_config(partitions=1, consume_wait_ms=50)
    async with run_manager(topic, PARTITION, config=config) as manager:
        topic.is_held = True
        with pytest.raises(RemoteMetadataError, match="read back"):
            await copy(manager, 0)
        topic.is_held = False
        await eventually(lambda: len(list(manager.list_remote_log_segments(PARTITION))) == 1)


async def test_kip_1197_a_node_starts_before_the_metadata_topic_is_available() -> None:
    topic = MemoryTopic(1)
    topic.is_down = True
    manager = manager_on(
        topic, config=metadata_topic_config(partitions=1, initialization_retry_interval_ms=1)
    )
    manager.on_partition_leadership_changes([PARTITION], [])
    manager.start()
    with pytest.raises(RemoteMetadataNotReady):
        await copy(manager, 0)
    topic.is_down = False
    await eventually(lambda: manager.is_ready(PARTITION))
    await copy(manager, 0)
    await manager.close()
    with pytest.raises(RemoteMetadataError, match="closed"):
        await copy(manager, 1)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_too_few_brokers_are_awaited_without_limit_after_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = MemoryTopic(1)
    topic.lacks_brokers = True
    config = replace(CONFIG, initialization_retry_max_timeout_ms=1)
    failures: list[str] = []
    manager = manager_on(topic, config=config, on_failure=failures.append)
    manager.on_partition_leadership_changes([PARTITION], [])
    manager.start()
    await eventually(lambda: topic.attempts >= 7)
    [warning] = warnings_of(caplog)
    assert "__remote_log_metadata" in warning
    assert "replication factor 3 needs more than the 1 broker(s)" in warning
    topic.lacks_brokers = False
    await eventually(lambda: manager.is_ready(PARTITION))
    await copy(manager, 0)
    await manager.close()
    assert not failures


async def test_a_topic_available_after_a_few_attempts_logs_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = MemoryTopic(1)
    topic.is_down = True
    manager = manager_on(topic)
    manager.on_partition_leadership_changes([PARTITION], [])
    manager.start()
    await eventually(lambda: topic.attempts >= 2)
    topic.is_down = False
    await eventually(lambda: manager.is_ready(PARTITION))
    await manager.close()
    assert not warnings_of(caplog)


async def test_an_outage_of_the_metadata_topic_logs_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION):
        topic.is_down = True
        await eventually(lambda: topic.refused >= 2)
        assert len(warnings_of(caplog)) == 1


def test_min_insync_replicas_of_the_metadata_topic_is_at_most_its_replication_factor() -> None:
    configs = metadata_topic_config(replication_factor=1).topic_configs
    assert configs["min.insync.replicas"] == "1"
    assert metadata_topic_config().topic_configs["min.insync.replicas"] == "2"


@pytest.mark.parametrize("is_wrong", [False, True])
async def test_kafka_19425_an_unusable_metadata_topic_is_reported(is_wrong: bool) -> None:
    topic = MemoryTopic(1)
    topic.is_down = not is_wrong
    topic.wrong = WrongMetadataTopic("it has 3 partitions, not 50")
    failures: list[str] = []
    manager = manager_on(topic, on_failure=failures.append)
    manager.start()
    await eventually(lambda: failures)
    assert ("3 partitions" if is_wrong else "cannot reach the metadata topic") in failures[0]
    with pytest.raises(RemoteMetadataError):
        await manager.put_remote_partition_delete_metadata(
            deletion(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
        )
    await manager.close()


async def test_a_restart_continues_from_its_snapshots() -> None:
    topic, disk = MemoryTopic(1), CrashFileSystem()
    async with run_manager(topic, PARTITION, OTHER, disk=disk) as manager:
        for number in range(20):
            await copy(manager, number)
        await remove(manager, 19)
    async with run_manager(topic, PARTITION) as elsewhere:
        await copy(elsewhere, 20)
    topic.read_count[0] = 0
    async with run_manager(topic, PARTITION, OTHER, disk=disk) as manager:
        assert topic.read_count[0] == 2
        assert len(list(manager.list_remote_log_segments(PARTITION, 0))) == 20
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 2099
        manager.on_stop_partitions([OTHER])
    assert len([name for name in disk.listdir("/logs/remote-log-metadata") if "_" not in name[:1]]) == 1


@pytest.mark.parametrize(
    "name", ["remote_log_snapshot", "leader-epoch-highest-offsets", "_rlmm_committed_offsets"]
)
async def test_a_corrupt_file_is_rebuilt_from_the_topic(name: str) -> None:
    topic, disk = MemoryTopic(1), CrashFileSystem()
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        for number in range(3):
            await copy(manager, number)
    directory = "/logs/remote-log-metadata"
    paths = [
        directory,
        *(f"{directory}/{entry}" for entry in disk.listdir(directory) if disk.is_dir(f"{directory}/{entry}")),
    ]
    (path,) = [f"{each}/{name}" for each in paths if disk.exists(f"{each}/{name}")]
    file = disk.open(path, create=False)
    file.truncate(file.size() - 2)
    file.close()
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        assert len(list(manager.list_remote_log_segments(PARTITION, 0))) == 3
        await copy(manager, 3)


async def test_a_recreated_metadata_topic_is_read_from_its_start() -> None:
    topic, disk = MemoryTopic(1), CrashFileSystem()
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        for number in range(3):
            await copy(manager, number)
    topic.logs[0].clear()
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        assert not list(manager.list_remote_log_segments(PARTITION))
        await copy(manager, 7)
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 799


async def test_a_truncated_metadata_partition_is_read_again() -> None:
    """An unclean election of the metadata partition's leader lost its last records."""
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        for number in range(3):
            await copy(manager, number)
        del topic.logs[0][2:]
        topic.starts_over = True
        topic.put(0, encode_event(copy_start(5, 500, 599)))
        await eventually(
            lambda: (
                manager.is_ready(PARTITION) and len(list(manager.list_remote_log_segments(PARTITION))) == 2
            )
        )
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 99


async def test_an_unexpected_error_is_reported_and_fails_waiting_writes() -> None:
    topic = MemoryTopic(1)
    failures: list[str] = []
    async with run_manager(topic, PARTITION, on_failure=failures.append) as manager:
        topic.is_broken = True
        with pytest.raises(RemoteMetadataError):
            await copy(manager, 0)
        await eventually(lambda: failures)
        assert "failed" in failures[0]
        with pytest.raises(RemoteMetadataError, match="failed"):
            await copy(manager, 1)


async def test_a_pending_deletion_is_known_after_a_restart_from_a_snapshot() -> None:
    topic, disk = MemoryTopic(1), CrashFileSystem()
    marked = deletion(RemotePartitionDeleteState.DELETE_PARTITION_MARKED, OTHER)
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        await manager.put_remote_partition_delete_metadata(marked)
        await copy(manager, 0)
    topic.read_count[0] = 0
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        assert topic.read_count[0] == 0
        assert manager.partition_deletions() == [marked]
        await manager.put_remote_partition_delete_metadata(
            deletion(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, OTHER)
        )
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        assert not manager.partition_deletions()


async def test_a_started_deletion_is_known_after_a_crash_without_its_directory() -> None:
    """The metadata of a partition without replica is not read: the deletion stayed incomplete."""
    topic, disk = MemoryTopic(1), CrashFileSystem()
    disk.makedirs("/logs")
    disk.sync_all()
    begun = deletion(RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        await copy(manager, 0)
        await manager.put_remote_partition_delete_metadata(
            deletion(RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
        )
        await manager.put_remote_partition_delete_metadata(begun)
        crashed_disk = disk.crash(Survival.LOSE_UNSYNCED)
    async with run_manager(topic, disk=crashed_disk) as manager:
        await eventually(lambda: manager.partition_deletions() == [begun])


async def test_a_snapshot_in_progress_ends_before_the_final_one_at_stop() -> None:
    """Otherwise an older snapshot could exist with newer committed offsets, and segments would be lost."""
    entered, door = threading.Event(), threading.Event()
    running_now: list[int] = []
    most = 0

    class SlowFiles(SnapshotFiles):
        def write(self, *plan: Any) -> None:
            nonlocal most
            running_now.append(1)
            most = max(most, len(running_now))
            entered.set()
            assert door.wait(TIMEOUT_S)
            super().write(*plan)
            running_now.pop()

    disk = CrashFileSystem()
    manager = TopicBasedRemoteLogMetadataManager(
        CONFIG, MemoryTopic(1), files=SlowFiles(disk, "/logs"), snapshot_interval_s=0.001
    )
    manager.on_partition_leadership_changes([PARTITION], [])
    manager.start()
    await eventually(entered.is_set)
    closing = asyncio.create_task(manager.close())
    await loop_iterations(100)
    door.set()
    await closing
    assert most == 1


async def test_a_snapshot_that_fails_during_stop_is_written_with_the_final_one() -> None:
    entered, door = threading.Event(), threading.Event()
    writes = 0

    class FailingFiles(SnapshotFiles):
        def write(self, *plan: Any) -> None:
            nonlocal writes
            if list(plan[1]):  # there is a snapshot to write
                writes += 1
                if writes == 2:
                    entered.set()
                    assert door.wait(TIMEOUT_S)
                    raise OSError("the disk is full")
            super().write(*plan)

    topic, disk = MemoryTopic(1), CrashFileSystem()
    manager = TopicBasedRemoteLogMetadataManager(
        CONFIG, topic, files=FailingFiles(disk, "/logs"), snapshot_interval_s=0.001
    )
    manager.on_partition_leadership_changes([PARTITION], [])
    manager.start()
    await eventually(lambda: manager.is_ready(PARTITION) and writes == 1)
    await copy(manager, 0)
    await eventually(entered.is_set)
    closing = asyncio.create_task(manager.close())
    await loop_iterations(100)
    door.set()
    await closing
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 99


async def test_a_truncated_metadata_partition_does_not_start_from_its_old_snapshot() -> None:
    """When its bounds are requested, it may be longer than before."""

    class GrowingTopic(MemoryTopic):
        async def open_reader(self) -> MemoryReader:
            reader = await super().open_reader()
            ask = reader.bounds

            async def bounds(metadata_partitions: Sequence[int]) -> dict[int, LogBounds]:
                while self.starts_over and len(self.logs[0]) < 20:
                    self.put(0, encode_event(copy_start(5, 500, 599)))
                return await ask(metadata_partitions)

            reader.bounds = bounds  # type: ignore[method-assign]
            return reader

    topic, disk = GrowingTopic(1), CrashFileSystem()
    async with run_manager(topic, PARTITION, disk=disk, snapshot_interval_s=0.001) as manager:
        for number in range(3):
            await copy(manager, number)
        files = SnapshotFiles(disk, "/logs")
        await eventually(
            lambda: (snapshot := files.load(PARTITION, 0)) is not None and len(snapshot.cache) == 3
        )
        topic.starts_over = True
        del topic.logs[0][2:]
        topic.put(0, encode_event(copy_start(5, 500, 599)))
        await eventually(
            lambda: manager.is_ready(PARTITION) and manager.highest_offset_for_epoch(PARTITION, 0) == 99
        )
