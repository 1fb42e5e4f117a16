"""The remote metadata of all partitions of this node, and the deletions of partitions in progress.

Every RemoteLogMetadataManager reads the results of its queries from it; the managers apply the records.

Source: RemotePartitionMetadataStore of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.metadata.cache import Outcome, RemoteLogMetadataCache
from tidelog.remote.ports.metadata_manager import (
    EpochRanges,
    RemoteMetadataError,
    RemoteMetadataNotReady,
    SegmentExcerpt,
)
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

RemoteLogEvent: TypeAlias = (
    RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
)

_log = logging.getLogger(__name__)


def partition_of(event: RemoteLogEvent) -> TopicIdPartition:
    """Return the partition of `event`."""
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return event.remote_log_segment_id.topic_id_partition
    return event.topic_id_partition


def require_writable(event: RemoteLogEvent) -> None:
    """Raise ValueError if the type of `event` does not match its state."""
    if isinstance(event, RemotePartitionDeleteMetadata):
        return
    is_start = event.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
    if is_start is not isinstance(event, RemoteLogSegmentMetadata):
        raise ValueError(
            f"a segment is added in COPY_SEGMENT_STARTED and never updated to that state: {event}"
        )


def raise_if_dropped(event: RemoteLogEvent, outcome: Outcome) -> None:
    """Raise RemoteMetadataError if a record of this node had no effect although it should have had one.

    A second end of a deletion is not an error: a node that missed the end writes it again.
    """
    is_end = event.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
    if outcome is Outcome.ILLEGAL_MOVE or (outcome is Outcome.UNKNOWN_SEGMENT and not is_end):
        raise RemoteMetadataError(
            f"{outcome.name}: the record may not follow the current state of its segment: {event}"
        )


class CacheQueries(ABC):
    """The queries of the port, served from the cache of the partition."""

    @abstractmethod
    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return the cache of a partition that is assigned to this node and ready."""

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """Return the segment that contains `offset` of leader epoch `epoch`, None if there is none."""
        return self.cache(partition).segment(epoch, offset)

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first segment of `epoch` that ends at or after `offset` and may have aborts."""
        return self.cache(partition).next_with_txn_index(epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, epoch: LeaderEpoch) -> Offset | None:
        """Return the last offset of `epoch` in remote storage (inclusive), None if there is none."""
        return self.cache(partition).highest_offset(epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, epoch: LeaderEpoch | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return the segments of one epoch, or of all epochs, in the order of their start offsets."""
        return self.cache(partition).segments(epoch)

    def segment_state(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentState | None:
        """Return the state of a segment, None if it does not exist or was deleted."""
        segment = self.cache(segment_id.topic_id_partition).get(segment_id)
        return None if segment is None else segment.state

    def segment_excerpt(self, partition: TopicIdPartition, ranges: EpochRanges) -> SegmentExcerpt | None:
        """Return the segments that decide about the expiration of a log; None if they are too many."""
        return self.cache(partition).excerpt(ranges)

    def segments_version(self, partition: TopicIdPartition) -> object:
        """Return a version of the partition's segments; it is equal as long as they have not changed."""
        cache = self.cache(partition)
        return cache, cache.changes  # another cache is another version, even with the same count


class PartitionMetadataStore(CacheQueries):
    """A cache for each partition of this node.

    Errors: RemoteMetadataError for a partition that is not assigned to this node.
    """

    def __init__(self) -> None:
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
        self._ready: set[TopicIdPartition] = set()
        self._deletions: dict[TopicIdPartition, RemotePartitionDeleteMetadata] = {}

    # --- partitions -----------------------------------------------------------------------

    def open(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return the cache of `partition`; create it if it does not exist."""
        cache = self._caches.get(partition)
        if cache is None:
            cache = self._caches[partition] = RemoteLogMetadataCache(partition)
        return cache

    def has(self, partition: TopicIdPartition) -> bool:
        """Return whether `partition` is assigned to this node, ready or not."""
        return partition in self._caches

    def install(self, partition: TopicIdPartition, cache: RemoteLogMetadataCache) -> None:
        """Replace the cache of `partition`, which is assigned to this node but not ready."""
        assert partition in self._caches and partition not in self._ready, partition
        self._caches[partition] = cache

    def mark_ready(self, partition: TopicIdPartition) -> None:
        """Serve queries about `partition` from now on."""
        assert partition in self._caches, partition
        self._ready.add(partition)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether queries about `partition` are served."""
        return partition in self._ready

    def drop(self, partition: TopicIdPartition) -> None:
        """Drop the metadata of the segments of `partition`."""
        self._caches.pop(partition, None)
        self._ready.discard(partition)

    # --- records --------------------------------------------------------------------------

    def apply(self, event: RemoteLogEvent) -> Outcome:
        """Apply one record; segments of partitions that are not assigned to this node are ignored."""
        partition = partition_of(event)
        if isinstance(event, RemotePartitionDeleteMetadata):
            return self._apply_deletion(event)
        cache = self._caches.get(partition)
        if cache is None:
            return Outcome.UNKNOWN_SEGMENT
        outcome = cache.add(event) if isinstance(event, RemoteLogSegmentMetadata) else cache.update(event)
        if outcome is Outcome.ILLEGAL_MOVE:
            _log.warning("Ignoring a remote metadata record that may not follow the current state: %s", event)
        return outcome

    def restore_deletions(self, deletions: Iterable[RemotePartitionDeleteMetadata]) -> None:
        """Add the `deletions` that an earlier run has stored."""
        self._deletions.update((deletion.topic_id_partition, deletion) for deletion in deletions)

    def deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """Return the last record of each deletion of a partition that has begun and not ended."""
        return list(self._deletions.values())

    def _apply_deletion(self, event: RemotePartitionDeleteMetadata) -> Outcome:
        partition = event.topic_id_partition
        before = self._deletions.get(partition)
        if event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            cache = self._caches.get(partition)
            if before is None and cache:
                return Outcome.ILLEGAL_MOVE  # another node has finished it, and these segments are newer
            self._deletions.pop(partition, None)
            if cache is not None:
                self._caches[partition] = RemoteLogMetadataCache(partition)
            return Outcome.APPLIED
        if before is None and event.state is not RemotePartitionDeleteState.DELETE_PARTITION_MARKED:
            return Outcome.ILLEGAL_MOVE  # it has finished: a late record must not start it again
        if before is not None and before.state > event.state:
            return Outcome.ILLEGAL_MOVE
        self._deletions[partition] = event
        return Outcome.REPEATED if before is not None and before.state is event.state else Outcome.APPLIED

    # --- queries --------------------------------------------------------------------------

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return the cache of a partition that is assigned to this node and ready."""
        cache = self._caches.get(partition)
        if cache is None:
            raise RemoteMetadataError(
                f"{partition} is not assigned to this node: its remote metadata is not available"
            )
        if partition not in self._ready:
            raise RemoteMetadataNotReady(
                f"the remote metadata of {partition} has not been read completely yet"
            )
        return cache


class StoreQueries(CacheQueries):
    """The queries of the port, served from `store`."""

    def __init__(self) -> None:
        self.store = PartitionMetadataStore()

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return the cache of a partition that is assigned to this node and ready."""
        return self.store.cache(partition)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether all metadata from before the assignment of the partition has been read."""
        return self.store.is_ready(partition)

    def partition_deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """Return the last record of each deletion of a partition that has begun and not ended."""
        return self.store.deletions()
