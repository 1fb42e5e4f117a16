"""Partition deletions in a metadata partition that several nodes read, some repeatedly."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.tier.metadata_manager import copy, remove, run_manager
from tests.support.tier.metadata_topic import MemoryTopic
from tests.support.tier.segment_metadata import FINISHED, PARTITION, copy_start, deletion, step
from tests.support.waiting import eventually
from tidelog.remote.metadata.cache import Outcome
from tidelog.remote.metadata.record_codec import encode_event
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.metadata.topic_based import TopicBasedRemoteLogMetadataManager
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteState, TopicIdPartition
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

OTHER = TopicIdPartition(UUID(int=0xB0B), "ebb", 3)
MARKED, DELETION_STARTED, DELETION_FINISHED = RemotePartitionDeleteState


async def disable_and_enable(manager: TopicBasedRemoteLogMetadataManager) -> None:
    """Tier the topic of PARTITION, disable tiering and enable it again (KIP-950): segment 1 is in use."""
    await copy(manager, 0)
    await manager.put_remote_partition_delete_metadata(deletion(MARKED))
    await manager.put_remote_partition_delete_metadata(deletion(DELETION_STARTED))
    await remove(manager, 0)
    await manager.put_remote_partition_delete_metadata(deletion(DELETION_FINISHED))
    await copy(manager, 1)


async def test_a_replayed_deletion_for_a_new_replica_removes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await disable_and_enable(manager)
        pending_deletions: list[bool] = []
        apply_event = manager.store.apply

        def apply(event: RemoteLogEvent) -> Outcome:
            outcome = apply_event(event)
            pending_deletions.append(bool(manager.partition_deletions()))
            return outcome

        monkeypatch.setattr(manager.store, "apply", apply)
        manager.on_partition_leadership_changes([], [OTHER])
        await eventually(lambda: manager.is_ready(OTHER))
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 199
        assert manager.remote_log_segment_metadata(PARTITION, 0, 150) is not None
        assert True not in pending_deletions


async def test_a_replayed_deletion_after_a_restart_removes_nothing() -> None:
    topic, disk = MemoryTopic(1), CrashFileSystem()
    async with run_manager(topic, PARTITION, disk=disk) as manager:
        await disable_and_enable(manager)
    async with run_manager(topic, PARTITION, OTHER, disk=disk) as manager:
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 199
        assert not manager.partition_deletions()


async def test_a_deletion_finished_elsewhere_is_not_pending_after_replay() -> None:
    topic, third = MemoryTopic(1), TopicIdPartition(UUID(int=0xCAB), "flow", 0)
    async with run_manager(topic, PARTITION) as past:
        await past.put_remote_partition_delete_metadata(deletion(MARKED, third))
        await past.put_remote_partition_delete_metadata(deletion(MARKED, OTHER))
    for _ in range(9):
        topic.put(0, encode_event(copy_start(7, 0, 9, partition=OTHER)))
    async with run_manager(topic) as manager:
        topic.is_held = True
        manager.on_partition_leadership_changes([PARTITION], [])
        await eventually(lambda: 0 in manager._subscription.tail)
        for state in (DELETION_STARTED, DELETION_FINISHED):
            topic.put(0, encode_event(deletion(state, third)))
        topic.is_held = False
        await eventually(lambda: manager.is_ready(PARTITION))
        await copy(manager, 0)
        assert manager.partition_deletions() == [deletion(MARKED, OTHER)]


@pytest.mark.parametrize("late", [DELETION_STARTED, DELETION_FINISHED])
async def test_a_late_node_neither_repeats_a_deletion_nor_removes_newer_segments(
    late: RemotePartitionDeleteState,
) -> None:
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await disable_and_enable(manager)
        with pytest.raises(RemoteMetadataError):
            await manager.put_remote_partition_delete_metadata(deletion(late))
        assert not manager.partition_deletions()
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 199


async def test_the_end_of_a_known_deletion_removes_segments_of_an_older_snapshot() -> None:
    """The deletions on disk may be ahead of the snapshots."""
    topic = MemoryTopic(1)
    async with run_manager(topic, PARTITION) as manager:
        await copy(manager, 0)
        await remove(manager, 0)
        assert manager.highest_offset_for_epoch(PARTITION, 0) == 99
        topic.put(0, encode_event(deletion(DELETION_FINISHED)))
        await eventually(lambda: manager.highest_offset_for_epoch(PARTITION, 0) is None)
        await manager.add_remote_log_segment_metadata(copy_start(5, 0, 9))
        await manager.update_remote_log_segment_metadata(step(5, FINISHED))
