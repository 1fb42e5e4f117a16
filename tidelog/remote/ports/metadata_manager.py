"""The port to what is known of remote segments: what KIP-405 asks of a RemoteLogMetadataManager.

Lives on the event loop. Questions are answered from memory, in plain functions; writes are awaited until
they are stored and seen by this node's own questions. Only segments in COPY_SEGMENT_FINISHED are given to
readers; `list_remote_log_segments` gives those in every state but DELETE_SEGMENT_FINISHED.

Source: org.apache.kafka.server.log.remote.storage.RemoteLogMetadataManager; KIP-405, KIP-1197.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)


class RemoteMetadataError(Exception):
    """What is known of remote segments could not be read or written; trying again may help."""


class RemoteMetadataNotReady(RemoteMetadataError):
    """The partition's metadata has not been read up to its end yet."""


class SegmentQuestions(Protocol):
    """What readers ask. Errors: RemoteMetadataError; RemoteMetadataNotReady when asked too early."""

    def remote_log_segment_metadata(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """The segment that holds `offset` as written in `epoch`; None when there is none."""
        ...

    def next_segment_with_txn_index(
        self, partition: TopicIdPartition, epoch: LeaderEpoch, offset: Offset
    ) -> RemoteLogSegmentMetadata | None:
        """The first segment of `epoch` that reaches `offset` or beyond and may have aborted transactions."""
        ...

    def list_remote_log_segments(
        self, partition: TopicIdPartition, epoch: LeaderEpoch | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """The segments of one epoch, or of all, by start offset."""
        ...


class RemoteLogMetadataManager(SegmentQuestions, Protocol):
    """Errors: RemoteMetadataError from every method; RemoteMetadataNotReady when asked too early."""

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a copy that begins, in state COPY_SEGMENT_STARTED."""
        ...

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a further step of a segment that was added."""
        ...

    async def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition."""
        ...

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Whether what was written before the partition came here has been read."""
        ...

    def highest_offset_for_epoch(self, partition: TopicIdPartition, epoch: LeaderEpoch) -> Offset | None:
        """The last offset of `epoch` in remote storage (inclusive); None when there is none."""
        ...

    def segments_version(self, partition: TopicIdPartition) -> object:
        """Equal to an earlier one as long as nothing else is known of the partition's segments."""
        ...

    def remote_log_size(self, partition: TopicIdPartition, epoch: LeaderEpoch) -> int:
        """Bytes of the finished segments of `epoch`."""
        ...

    def on_partition_leadership_changes(
        self, leaders: Iterable[TopicIdPartition], followers: Iterable[TopicIdPartition]
    ) -> None:
        """These partitions are here now: begin to read their metadata, if that is not done yet."""
        ...

    def on_stop_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        """These partitions are here no more: forget what is known of them."""
        ...

    async def close(self) -> None:
        """Stop reading and writing."""
        ...
