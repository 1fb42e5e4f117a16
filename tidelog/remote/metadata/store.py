"""What is known of remote segments of all partitions that are here, and the deletions under way.

Shared by every RemoteLogMetadataManager: it answers the questions of the port; how records come here is
the managers' matter.

Source: RemotePartitionMetadataStore of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.metadata.cache import Outcome, RemoteLogMetadataCache
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.segment_metadata import (
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
    """The partition that `event` is about."""
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return event.remote_log_segment_id.topic_id_partition
    return event.topic_id_partition


def require_writable(event: RemoteLogEvent) -> None:
    """ValueError for an event that has no place in the life of a segment at all."""
    if isinstance(event, RemotePartitionDeleteMetadata):
        return
    is_start = event.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
    if is_start is not isinstance(event, RemoteLogSegmentMetadata):
        raise ValueError(f"a segment is added in COPY_SEGMENT_STARTED and never updated to it: {event}")


def refuse_dropped(event: RemoteLogEvent, outcome: Outcome) -> None:
    """RemoteMetadataError when a record that this node wrote changed nothing where it should have.

    A deletion that ends twice is no error: whoever was not told of the end writes it again.
    """
    is_end = event.state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
    if outcome is Outcome.ILLEGAL_MOVE or (outcome is Outcome.UNKNOWN_SEGMENT and not is_end):
        raise RemoteMetadataError(f"{outcome.name}: it does not follow from what is known: {event}")


class CacheQuestions(ABC):
    """The questions of the port, each answered by the cache of its partition."""

    @abstractmethod
    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """The cache of a partition that is here and ready."""

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """The segment that holds `offset` as written in `epoch`; None when there is none."""
        return self.cache(partition).segment(epoch, offset)

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """The first segment of `epoch` that reaches `offset` or beyond and may have aborted transactions."""
        return self.cache(partition).next_with_txn_index(epoch, offset)

    def highest_offset_for_epoch(self, partition: TopicIdPartition, epoch: LeaderEpoch) -> Offset | None:
        """The last offset of `epoch` in remote storage (inclusive); None when there is none."""
        return self.cache(partition).highest_offset(epoch)

    def list_remote_log_segments(
        self, partition: TopicIdPartition, epoch: LeaderEpoch | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """The segments of one epoch, or of all, by start offset."""
        return self.cache(partition).segments(epoch)

    def segments_version(self, partition: TopicIdPartition) -> object:
        """Equal to an earlier one as long as nothing else is known of the partition's segments."""
        cache = self.cache(partition)
        return cache, cache.changes  # another cache is another version, whatever it counts

    def remote_log_size(self, partition: TopicIdPartition, epoch: LeaderEpoch) -> int:
        """Bytes of the finished segments of `epoch`."""
        return self.cache(partition).size_bytes(epoch)


class PartitionMetadataStore(CacheQuestions):
    """A cache per partition. Errors: RemoteMetadataError for partitions that are not here."""

    def __init__(self) -> None:
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}
        self._ready: set[TopicIdPartition] = set()
        self._deletions: dict[TopicIdPartition, RemotePartitionDeleteMetadata] = {}

    # --- partitions -----------------------------------------------------------------------

    def open(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """The cache of `partition`, an empty one when it was not here."""
        cache = self._caches.get(partition)
        if cache is None:
            cache = self._caches[partition] = RemoteLogMetadataCache(partition)
        return cache

    def has(self, partition: TopicIdPartition) -> bool:
        """Whether `partition` is here, ready or not."""
        return partition in self._caches

    def install(self, partition: TopicIdPartition, cache: RemoteLogMetadataCache) -> None:
        """What is known of `partition`, which is here but not ready, is `cache`."""
        assert partition in self._caches and partition not in self._ready, partition
        self._caches[partition] = cache

    def mark_ready(self, partition: TopicIdPartition) -> None:
        """From now on questions about `partition` are answered."""
        assert partition in self._caches, partition
        self._ready.add(partition)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Whether questions about `partition` are answered."""
        return partition in self._ready

    def drop(self, partition: TopicIdPartition) -> None:
        """Forget what is known of the segments of `partition`."""
        self._caches.pop(partition, None)
        self._ready.discard(partition)

    def segment_count(self) -> int:
        """Segments of all partitions, in whatever state."""
        return sum(len(cache) for cache in self._caches.values())

    # --- records --------------------------------------------------------------------------

    def apply(self, event: RemoteLogEvent) -> Outcome:
        """Take over one record; segments of partitions that are not here are ignored."""
        partition = partition_of(event)
        if isinstance(event, RemotePartitionDeleteMetadata):
            return self._apply_deletion(event)
        cache = self._caches.get(partition)
        if cache is None:
            return Outcome.UNKNOWN_SEGMENT
        outcome = cache.add(event) if isinstance(event, RemoteLogSegmentMetadata) else cache.update(event)
        if outcome is Outcome.ILLEGAL_MOVE:
            _log.warning("dropped, because it does not follow from what is known: %s", event)
        return outcome

    def restore_deletions(self, deletions: Iterable[RemotePartitionDeleteMetadata]) -> None:
        """Take over what was known of deletions when they were kept, however far each had come."""
        self._deletions.update((one.topic_id_partition, one) for one in deletions)

    def deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """The deletions of partitions that have begun and not ended, the last record of each."""
        return list(self._deletions.values())

    def _apply_deletion(self, event: RemotePartitionDeleteMetadata) -> Outcome:
        partition = event.topic_id_partition
        before = self._deletions.get(partition)
        if event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            cache = self._caches.get(partition)
            if before is None and cache:
                return Outcome.ILLEGAL_MOVE  # another node ended it, and these segments are new
            self._deletions.pop(partition, None)
            if cache is not None:
                self._caches[partition] = RemoteLogMetadataCache(partition)
            return Outcome.APPLIED
        if before is None and event.state is not RemotePartitionDeleteState.DELETE_PARTITION_MARKED:
            return Outcome.ILLEGAL_MOVE  # it has ended: somebody came late, and must not begin it again
        if before is not None and before.state > event.state:
            return Outcome.ILLEGAL_MOVE
        self._deletions[partition] = event
        return Outcome.REPEATED if before is not None and before.state is event.state else Outcome.APPLIED

    # --- questions ------------------------------------------------------------------------

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """The cache of a partition that is here and ready."""
        cache = self._caches.get(partition)
        if cache is None:
            raise RemoteMetadataError(f"{partition} is not here: nothing is known of its remote segments")
        if partition not in self._ready:
            raise RemoteMetadataNotReady(f"the metadata of {partition} has not been read to its end yet")
        return cache


class StoreQuestions(CacheQuestions):
    """The questions of the port, answered from `store`."""

    store: PartitionMetadataStore

    def cache(self, partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """The cache of a partition that is here and ready."""
        return self.store.cache(partition)

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Whether what was written before the partition came here has been read."""
        return self.store.is_ready(partition)

    def partition_deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """The deletions of partitions that have begun and not ended, the last record of each."""
        return self.store.deletions()
