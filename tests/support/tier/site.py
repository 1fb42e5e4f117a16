"""A RemoteLogManager with its parts."""

from __future__ import annotations

import random

from tests.support.clocks.manual_clock import ManualClock
from tests.support.logs.partition_logs import open_log
from tests.support.tier.metadata_managers import InMemoryMetadataLog, InMemoryRemoteLogMetadataManager
from tests.support.tier.settings import remote_settings
from tests.support.tier.tier_cluster import (
    PARTITION,
    TIERED,
    CopyingTier,
    sealed_segments,
)
from tidelog.remote.log_manager.manager import RemoteLogManager
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tidelog.remote.tasks.context import NodeServices
from tidelog.remote.tasks.replica import TieredReplica
from tidelog.remote.tasks.settings import RemoteLogManagerSettings
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

QUICK = remote_settings(
    remote_log_manager_task_interval_ms=20,
    remote_log_manager_task_retry_backoff_ms=1,
    remote_log_manager_task_retry_backoff_max_ms=10,
)


class Site:
    """One node: its manager, on storage and metadata that outlive it."""

    def __init__(self, settings: RemoteLogManagerSettings = QUICK, site: Site | None = None) -> None:
        self.fs: CrashFileSystem = CrashFileSystem() if site is None else site.fs
        self.tier: CopyingTier = CopyingTier(self.fs) if site is None else site.tier
        self.events: InMemoryMetadataLog = InMemoryMetadataLog() if site is None else site.events
        self.metadata = InMemoryRemoteLogMetadataManager(self.events)
        self.clock = ManualClock()
        self.broker_id: int = 0 if site is None else site.broker_id + 1
        self.is_confirmed = True
        self.manager = RemoteLogManager(
            settings,
            self.tier,
            self.metadata,
            NodeServices(
                broker_id=self.broker_id,
                clock=self.clock,
                randomness=random.Random(self.broker_id),
                is_confirmed=lambda: self.is_confirmed,
            ),
        )

    def log(
        self, segments: int = 0, config: LogConfig = TIERED, directory: str | None = None
    ) -> PartitionLog:
        log = open_log(self.fs, config, directory=directory or f"/data{self.broker_id}/events-0")
        sealed_segments(log, segments)
        return log

    def finished_segments(self, partition: TopicIdPartition = PARTITION) -> list[tuple[int, int]]:
        return [
            (each.start_offset, each.end_offset) for each in self.list_segments(partition) if each.state == 1
        ]

    def list_segments(self, partition: TopicIdPartition = PARTITION) -> list[RemoteLogSegmentMetadata]:
        return list(self.metadata.list_remote_log_segments(partition))

    async def close(self) -> None:
        await self.manager.close()
        await self.metadata.close()


def replica(log: PartitionLog, epoch: int = 0, partition: TopicIdPartition = PARTITION) -> TieredReplica:
    return TieredReplica(partition, log, epoch)
