"""A RemoteLogMetadataManager in memory.

Several managers may share one `InMemoryMetadataLog`, as the brokers of a cluster share the metadata topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tidelog.remote.metadata.cache import Outcome
from tidelog.remote.metadata.config import MetadataTopicConfig
from tidelog.remote.metadata.store import (
    RemoteLogEvent,
    StoreQueries,
    partition_of,
    raise_if_dropped,
    require_writable,
)
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)


def metadata_topic_config(**changes: Any) -> MetadataTopicConfig:
    """Return Kafka's defaults with `changes`."""
    return replace(MetadataTopicConfig.of({}), **changes)


class InMemoryMetadataLog:
    """All records in order; replaces the metadata topic."""

    def __init__(self) -> None:
        self.events: list[RemoteLogEvent] = []
        self._managers: list[InMemoryRemoteLogMetadataManager] = []

    def join(self, manager: InMemoryRemoteLogMetadataManager) -> None:
        """Pass later records to `manager`."""
        self._managers.append(manager)

    def leave(self, manager: InMemoryRemoteLogMetadataManager) -> None:
        """Pass no more records to `manager`."""
        self._managers.remove(manager)

    def append(self, event: RemoteLogEvent) -> None:
        """Write `event` and pass it to every manager."""
        self.events.append(event)
        for manager in self._managers:
            manager.on_record(event)


class InMemoryRemoteLogMetadataManager(StoreQueries):
    """A manager whose writes are visible at once.

    Writes raise `failure` if it is set; partitions in `held_back` do not become ready.
    Errors: RemoteMetadataError as specified by the port, also for an update that the segment's state does not
    allow.
    """

    def __init__(self, log: InMemoryMetadataLog | None = None) -> None:
        super().__init__()
        self.log = log or InMemoryMetadataLog()
        self.failure: RemoteMetadataError | None = None
        self.held_back: set[TopicIdPartition] = set()
        self.is_closed = False
        self._outcome = Outcome.APPLIED
        self.log.join(self)

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Record the start of a copy."""
        self._write(metadata)

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Record the next state of a segment."""
        self._write(update)

    async def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Record a step of the deletion of a partition."""
        self._write(metadata)

    def on_partition_leadership_changes(
        self, leaders: Iterable[TopicIdPartition], followers: Iterable[TopicIdPartition]
    ) -> None:
        """Read the log for these partitions at once, unless they are held back."""
        for partition in (*leaders, *followers):
            if self.store.is_ready(partition):
                continue
            self.store.drop(partition)
            self.store.open(partition)
            if partition in self.held_back:
                continue
            for event in self.log.events:
                if partition_of(event) == partition:
                    self.store.apply(event)
            self.store.mark_ready(partition)

    def on_stop_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Drop the metadata of these partitions."""
        for partition in partitions:
            self.store.drop(partition)

    async def close(self) -> None:
        """Receive no more records."""
        if not self.is_closed:
            self.is_closed = True
            self.log.leave(self)

    def on_record(self, event: RemoteLogEvent) -> None:
        """Apply a record that any manager wrote."""
        self._outcome = self.store.apply(event)

    def _write(self, event: RemoteLogEvent) -> None:
        require_writable(event)
        if self.is_closed:
            raise RemoteMetadataError("the metadata manager is closed")
        if self.failure is not None:
            raise self.failure
        if not isinstance(event, RemotePartitionDeleteMetadata):
            self.store.cache(partition_of(event))
        self.log.append(event)
        raise_if_dropped(event, self._outcome)
