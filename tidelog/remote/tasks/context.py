"""The context that all tasks of the RemoteLogManager share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any, TypeAlias
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness, new_uuid
from tidelog.base.threads import SYSTEM_THREADS, Threads
from tidelog.protocol.ids import BrokerId
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.remote.tasks.byte_rate import ByteRate
from tidelog.remote.tasks.fault_points import FaultPoints, no_faults
from tidelog.remote.tasks.figures import RemoteFigures
from tidelog.remote.tasks.outages import StoreOutages
from tidelog.remote.tasks.settings import RemoteLogManagerSettings

RunInThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Returns or raises the result of a blocking function that runs in a pool; see BoundedPool.run."""


async def pause(delay_ms: int) -> None:
    """Sleep on the event loop for `delay_ms`."""
    await asyncio.sleep(delay_ms / 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """The services that a node provides to its RemoteLogManager."""

    broker_id: BrokerId
    clock: Clock
    randomness: Randomness
    is_confirmed: Callable[[], bool] = lambda: True
    """Whether the controller has responded recently: only then does the node know that it is still leader."""
    faults: FaultPoints = no_faults
    outages: StoreOutages | None = None
    """None if the storage manager does not report outages."""
    referenced_until_ms: Callable[[UUID], int | None] = lambda topic_id: None
    """The time up to which other topics refer to the segments of a topic; None if none does."""
    threads: Threads = SYSTEM_THREADS


@dataclass(slots=True, kw_only=True)
class RemoteLogContext:
    """The ports, the pools, and the state that the tasks share.

    Invariant: `in_progress` contains the segments that a task of this node is copying or deleting, or whose
    final state it still has to publish. No other task touches them.
    """

    broker_id: BrokerId
    settings: RemoteLogManagerSettings
    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    clock: Clock
    randomness: Randomness
    run_copy: RunInThread
    run_deletion: RunInThread
    copy_quota: ByteRate
    outages: StoreOutages
    figures: RemoteFigures = field(default_factory=RemoteFigures)
    faults: FaultPoints = no_faults
    pause: Callable[[int], Awaitable[None]] = pause
    is_confirmed: Callable[[], bool] = lambda: True
    """Whether the controller has responded recently: no metadata change can have been missed for long."""
    referenced_until_ms: Callable[[UUID], int | None] = lambda topic_id: None
    in_progress: set[UUID] = field(default_factory=set)
    undeleted_copies: dict[UUID, RemoteLogSegmentMetadata] = field(default_factory=dict)
    """Copies of this node whose objects could not be deleted; other nodes may not know them."""

    def update_settings(self, settings: RemoteLogManagerSettings) -> None:
        """Use changed settings."""
        self.settings = settings

    def new_segment_id(self, partition: TopicIdPartition) -> RemoteLogSegmentId:
        """Return an id that no other copy has."""
        return RemoteLogSegmentId(partition, new_uuid(self.randomness))

    def update_of(
        self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState
    ) -> RemoteLogSegmentMetadataUpdate:
        """Return the update that changes `segment` to `state` now."""
        return RemoteLogSegmentMetadataUpdate(
            remote_log_segment_id=segment.remote_log_segment_id,
            event_timestamp_ms=self.clock.wall_ms(),
            state=state,
            broker_id=self.broker_id,
            custom_metadata=segment.custom_metadata,
        )
