"""The port to the metadata of remote segments: the RemoteLogMetadataManager of KIP-405.

It is used on the event loop. Queries are served from memory, in plain functions. Writes are awaited until
the record is stored and visible to this node's own queries. Readers receive only segments in
COPY_SEGMENT_FINISHED; `list_remote_log_segments` returns those in every state but DELETE_SEGMENT_FINISHED.

Source: org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager; KIP-405, KIP-1197.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)

EpochRanges: TypeAlias = Callable[[LeaderEpoch], tuple[Offset, Offset] | None]
"""Returns the first offset of an epoch in a log, and the offset after its last; None for an unknown epoch."""


class RemoteMetadataError(Exception):
    """The metadata of remote segments could not be read or written; a retry may succeed."""


class RemoteMetadataNotReady(RemoteMetadataError):
    """The partition's metadata has not been read completely yet."""


class SegmentExcerpt(NamedTuple):
    """The segments of a log that may expire next, and all segments that are not a usual part of the log.

    The others are finished, belong to the log, overlap no segment, and begin after `last_regular`.
    """

    segments: Sequence[RemoteLogSegmentMetadata]
    """By their start offsets."""
    last_regular: RemoteLogSegmentMetadata | None
    """The newest of `segments` which is a usual part of the log; None if there are no others."""
    other_bytes: int
    other_end_offset: Offset
    """The offset after the last of the others; 0 if there are none."""
    segment_count: int
    """The number of all segments."""
    size_bytes: int
    """The size of all segments."""

    def reaches(self, offset: Offset) -> bool:
        """Return whether the others have no record below `offset`."""
        return self.last_regular is None or self.last_regular.end_offset >= offset


class SegmentQueries(Protocol):
    """The queries of readers.

    Errors: RemoteMetadataError; RemoteMetadataNotReady before the partition's metadata is read.
    """

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """Return the segment that contains `offset` of leader epoch `epoch`, None if there is none."""
        ...

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """Return the first segment of `epoch` that ends at or after `offset` and may have aborts.

        None if there is none.
        """
        ...

    def list_remote_log_segments(
        self, partition: TopicIdPartition, epoch: LeaderEpoch | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Return the segments of one epoch, or of all epochs, in the order of their start offsets."""
        ...


class RemoteLogMetadataManager(SegmentQueries, Protocol):
    """Stores and returns the metadata of remote segments.

    Errors: RemoteMetadataError from every method; RemoteMetadataNotReady before the partition's metadata is
    read.
    """

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Record the start of a copy, in state COPY_SEGMENT_STARTED."""
        ...

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Record the next state of a segment that was added before."""
        ...

    async def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Record a step of the deletion of a partition."""
        ...

    def partition_deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """Return the last record of each deletion of a partition that has begun and not ended."""
        ...

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Return whether all metadata from before the assignment of the partition has been read."""
        ...

    def highest_offset_for_epoch(self, partition: TopicIdPartition, epoch: LeaderEpoch) -> Offset | None:
        """Return the last offset of `epoch` in remote storage (inclusive), None if there is none."""
        ...

    def segment_state(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentState | None:
        """Return the state of a segment, None if it does not exist or was deleted."""
        ...

    def segment_excerpt(self, partition: TopicIdPartition, ranges: EpochRanges) -> SegmentExcerpt | None:
        """Return the segments that decide about the expiration of a log; None if they are too many.

        `ranges` returns the offsets of the epochs of the log.
        """
        ...

    def segments_version(self, partition: TopicIdPartition) -> object:
        """Return a version of the partition's segments.

        It equals an earlier one as long as the metadata of the segments has not changed.
        """
        ...

    def on_partition_leadership_changes(
        self, leaders: Iterable[TopicIdPartition], followers: Iterable[TopicIdPartition]
    ) -> None:
        """Start to read the metadata of assigned partitions, unless it is read already."""
        ...

    def on_stop_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Drop the metadata of partitions that are no longer assigned to this node."""
        ...

    async def close(self) -> None:
        """Stop reading and writing."""
        ...
