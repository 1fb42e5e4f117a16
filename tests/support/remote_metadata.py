"""A RemoteLogMetadataManager that keeps everything in memory: for tests, and for trying things out.

Several managers may share one `InMemoryMetadataLog`, as the brokers of a cluster share the topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tidelog.remote.metadata.cache import Outcome
from tidelog.remote.metadata.config import MetadataTopicConfig
from tidelog.remote.metadata.store import (
    PartitionMetadataStore,
    RemoteLogEvent,
    StoreQuestions,
    partition_of,
    refuse_dropped,
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
    """Every record that was written, in order; stands for the metadata topic."""

    def __init__(self) -> None:
        self.events: list[RemoteLogEvent] = []
        self._managers: list[InMemoryRemoteLogMetadataManager] = []

    def join(self, manager: InMemoryRemoteLogMetadataManager) -> None:
        """`manager` hears what is written from now on."""
        self._managers.append(manager)

    def leave(self, manager: InMemoryRemoteLogMetadataManager) -> None:
        """`manager` hears nothing more."""
        self._managers.remove(manager)

    def append(self, event: RemoteLogEvent) -> None:
        """Write `event` and tell every manager."""
        self.events.append(event)
        for manager in self._managers:
            manager.hear(event)


class InMemoryRemoteLogMetadataManager(StoreQuestions):
    """Every write is seen at once. `failure`, when set, is what writes raise; `held_back` are not ready.

    Errors: RemoteMetadataError as the port says, also for an update that the segment's state does not allow.
    """

    def __init__(self, log: InMemoryMetadataLog | None = None) -> None:
        self.log = log or InMemoryMetadataLog()
        self.store = PartitionMetadataStore()
        self.failure: RemoteMetadataError | None = None
        self.held_back: set[TopicIdPartition] = set()
        self.is_closed = False
        self._outcome = Outcome.APPLIED
        self.log.join(self)

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a copy that begins, in state COPY_SEGMENT_STARTED."""
        self._write(metadata)

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a further step of a segment that was added."""
        self._write(update)

    async def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition."""
        self._write(metadata)

    def on_partition_leadership_changes(
        self, leaders: Iterable[TopicIdPartition], followers: Iterable[TopicIdPartition]
    ) -> None:
        """These partitions are here now: the log is read at once, unless they are held back."""
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
        """These partitions are here no more: forget what is known of them."""
        for partition in partitions:
            self.store.drop(partition)

    async def close(self) -> None:
        """Hear nothing more."""
        if not self.is_closed:
            self.is_closed = True
            self.log.leave(self)

    def hear(self, event: RemoteLogEvent) -> None:
        """A record was written by somebody."""
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
        refuse_dropped(event, self._outcome)
