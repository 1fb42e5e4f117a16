"""A topic-based metadata manager over a topic in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.tier.metadata_managers import metadata_topic_config
from tests.support.tier.metadata_topic import MemoryTopic
from tests.support.tier.segment_metadata import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    copy_start,
    step,
)
from tests.support.waiting import eventually
from tidelog.remote.metadata.snapshot_files import SnapshotFiles
from tidelog.remote.metadata.topic_based import TopicBasedRemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = metadata_topic_config(
    partitions=1,
    consume_wait_ms=5_000,
    initialization_retry_interval_ms=1,
    initialization_retry_max_timeout_ms=300,
)


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def manager_on(
    topic: MemoryTopic, disk: CrashFileSystem | None = None, **options: Any
) -> TopicBasedRemoteLogMetadataManager:
    files = None if disk is None else SnapshotFiles(disk, "/logs")
    return TopicBasedRemoteLogMetadataManager(
        options.pop("config", CONFIG), topic, files=files, run_blocking=at_once, **options
    )


@asynccontextmanager
async def run_manager(
    topic: MemoryTopic, *partitions: TopicIdPartition, **options: Any
) -> AsyncIterator[TopicBasedRemoteLogMetadataManager]:
    manager = manager_on(topic, **options)
    manager.on_partition_leadership_changes(partitions, [])
    manager.start()
    try:
        await eventually(lambda: all(map(manager.is_ready, partitions)))
        yield manager
    finally:
        await manager.close()


async def copy(
    manager: TopicBasedRemoteLogMetadataManager, number: int, partition: TopicIdPartition = PARTITION
) -> None:
    await manager.add_remote_log_segment_metadata(
        copy_start(number, number * 100, number * 100 + 99, partition=partition)
    )
    await manager.update_remote_log_segment_metadata(step(number, FINISHED, partition=partition))


async def remove(manager: TopicBasedRemoteLogMetadataManager, number: int) -> None:
    for state in (DELETING, DELETED):
        await manager.update_remote_log_segment_metadata(step(number, state))
