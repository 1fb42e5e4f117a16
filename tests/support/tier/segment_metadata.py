"""Metadata of remote segments for tests."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from tidelog.storage.leader_epoch import EpochEntry

PARTITION = TopicIdPartition(UUID(int=0xA11CE), "tides", 0)
STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState


def segment_id(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentId:
    """Return the segment id for `number`."""
    return RemoteLogSegmentId(partition, UUID(int=number + 1))


def copy_start(
    number: int,
    start: int,
    end: int,
    epochs: Sequence[tuple[int, int]] | int = 0,
    *,
    partition: TopicIdPartition = PARTITION,
    size_bytes: int = 1000,
    is_txn_index_empty: bool = False,
    custom_metadata: bytes | None = None,
) -> RemoteLogSegmentMetadata:
    """Return the start of a copy, both ends inclusive; `epochs` is one epoch or (epoch, start) pairs."""
    pairs = ((epochs, start),) if isinstance(epochs, int) else epochs
    return RemoteLogSegmentMetadata(
        segment_id(number, partition),
        start,
        end,
        max_timestamp_ms=1000 + end,
        broker_id=1,
        event_timestamp_ms=2000 + number,
        segment_size_bytes=size_bytes,
        segment_leader_epochs=tuple(EpochEntry(*pair) for pair in pairs),
        custom_metadata=custom_metadata,
        is_txn_index_empty=is_txn_index_empty,
    )


def step(
    number: int,
    state: RemoteLogSegmentState,
    *,
    partition: TopicIdPartition = PARTITION,
    custom_metadata: bytes | None = None,
) -> RemoteLogSegmentMetadataUpdate:
    """Return a further record of the segment with `number`."""
    return RemoteLogSegmentMetadataUpdate(
        segment_id(number, partition), 3000 + number, state, broker_id=2, custom_metadata=custom_metadata
    )


def deletion(
    state: RemotePartitionDeleteState, partition: TopicIdPartition = PARTITION
) -> RemotePartitionDeleteMetadata:
    """Return a record of the deletion of a partition."""
    return RemotePartitionDeleteMetadata(partition, state, event_timestamp_ms=4000, broker_id=1)
