"""The metadata manager in memory."""

from __future__ import annotations

import pytest

from tests.support.tier.metadata_managers import InMemoryMetadataLog, InMemoryRemoteLogMetadataManager
from tests.support.tier.segment_metadata import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    STARTED,
    copy_start,
    deletion,
    segment_id,
    step,
)
from tidelog.remote.ports.metadata_manager import (
    RemoteLogMetadataManager,
    RemoteMetadataError,
    RemoteMetadataNotReady,
)
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteState


async def test_a_segment_is_readable_from_copy_finished_to_deletion_started() -> None:
    manager: RemoteLogMetadataManager = InMemoryRemoteLogMetadataManager()
    manager.on_partition_leadership_changes([PARTITION], [])
    readable = []
    await manager.add_remote_log_segment_metadata(copy_start(1, 0, 99))
    readable.append(manager.remote_log_segment_metadata(PARTITION, 0, 50) is not None)
    for state in (FINISHED, DELETING, DELETED):
        await manager.update_remote_log_segment_metadata(step(1, state))
        readable.append(manager.remote_log_segment_metadata(PARTITION, 0, 50) is not None)
    assert readable == [False, True, False, False]
    assert not list(manager.list_remote_log_segments(PARTITION))
    assert manager.highest_offset_for_epoch(PARTITION, 0) == 99


async def test_managers_of_one_log_read_all_writes_of_each_other() -> None:
    log = InMemoryMetadataLog()
    writer, early = InMemoryRemoteLogMetadataManager(log), InMemoryRemoteLogMetadataManager(log)
    writer.on_partition_leadership_changes([PARTITION], [])
    early.on_partition_leadership_changes([], [PARTITION])
    await writer.add_remote_log_segment_metadata(copy_start(1, 0, 99))
    await writer.update_remote_log_segment_metadata(step(1, FINISHED))
    late = InMemoryRemoteLogMetadataManager(log)
    late.on_partition_leadership_changes([], [PARTITION])
    for manager in (writer, early, late):
        segment = manager.remote_log_segment_metadata(PARTITION, 0, 99)
        assert segment is not None
        assert segment.remote_log_segment_id == segment_id(1)


async def test_invalid_transitions_are_refused() -> None:
    manager = InMemoryRemoteLogMetadataManager()
    with pytest.raises(RemoteMetadataError, match="not assigned to this node"):
        await manager.add_remote_log_segment_metadata(copy_start(1, 0, 99))
    manager.on_partition_leadership_changes([PARTITION], [])
    with pytest.raises(RemoteMetadataError, match="UNKNOWN_SEGMENT"):
        await manager.update_remote_log_segment_metadata(step(1, FINISHED))
    await manager.update_remote_log_segment_metadata(step(1, DELETED))
    with pytest.raises(ValueError, match="COPY_SEGMENT_STARTED"):
        await manager.update_remote_log_segment_metadata(step(1, STARTED))
    manager.on_stop_partitions([PARTITION])
    with pytest.raises(RemoteMetadataError, match="not assigned to this node"):
        manager.list_remote_log_segments(PARTITION)


async def test_a_paused_partition_is_not_ready() -> None:
    manager = InMemoryRemoteLogMetadataManager()
    manager.held_back.add(PARTITION)
    manager.on_partition_leadership_changes([PARTITION], [])
    assert not manager.is_ready(PARTITION)
    with pytest.raises(RemoteMetadataNotReady):
        manager.highest_offset_for_epoch(PARTITION, 0)
    manager.held_back.clear()
    manager.on_partition_leadership_changes([PARTITION], [])
    assert manager.highest_offset_for_epoch(PARTITION, 0) is None


async def test_a_partition_deletion_is_pending_until_it_is_finished() -> None:
    manager = InMemoryRemoteLogMetadataManager()
    manager.on_partition_leadership_changes([PARTITION], [])
    await manager.add_remote_log_segment_metadata(copy_start(1, 0, 99))
    for state in RemotePartitionDeleteState:
        await manager.put_remote_partition_delete_metadata(deletion(state))
        is_last = state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
        assert [entry.state for entry in manager.partition_deletions()] == ([] if is_last else [state])
    assert not list(manager.list_remote_log_segments(PARTITION))
