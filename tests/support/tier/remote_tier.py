"""A remote tier in memory, and logs whose sealed segments are copied into it, for tests of reading."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import (
    IndexType,
    LogSegmentData,
    ReadableStream,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tidelog.storage.disk.checkpoints import encode_leader_epochs
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.txn_index import AbortedTransaction

PARTITION = TopicIdPartition(UUID(int=7), "events", 0)


@dataclass
class StoredSegment:
    """The contents of one copied segment."""

    log: bytes
    indexes: dict[IndexType, bytes]


@dataclass
class MemoryTier:
    """A RemoteStorageManager with a dict; counts requests, and fails on request."""

    segments: dict[UUID, StoredSegment] = field(default_factory=dict)
    ranges: list[tuple[UUID, int, int | None]] = field(default_factory=list)
    index_fetches: list[tuple[UUID, IndexType]] = field(default_factory=list)
    failure: RemoteStorageError | None = None
    before_index_fetch: Callable[[], None] = lambda: None
    bytes_at_most: int = 1 << 30
    """The largest result of one `read` of a stream."""
    cut_after: int | None = None
    """The number of bytes after which every stream of a log file ends."""

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> bytes | None:
        raise AssertionError("tests store segments directly")

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> ReadableStream:
        segment_id = metadata.remote_log_segment_id.id
        self.ranges.append((segment_id, start_position, end_position))
        data = self._stored_segment(metadata).log
        end = len(data) if end_position is None else end_position + 1
        if not 0 <= start_position < end:
            raise ValueError(f"{start_position} to {end_position} is no range")
        data = data[start_position:end]
        return _Stream(data[: self.cut_after], self.bytes_at_most)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        self.index_fetches.append((metadata.remote_log_segment_id.id, index_type))
        self.before_index_fetch()
        data = self._stored_segment(metadata).indexes.get(index_type)
        if data is None:
            raise RemoteResourceNotFound(f"{metadata.remote_log_segment_id} has no {index_type.value}")
        return _Stream(data, self.bytes_at_most)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.segments.pop(metadata.remote_log_segment_id.id, None)

    def close(self) -> None:
        pass

    def _stored_segment(self, metadata: RemoteLogSegmentMetadata) -> StoredSegment:
        if self.failure is not None:
            raise self.failure
        stored = self.segments.get(metadata.remote_log_segment_id.id)
        if stored is None:
            raise RemoteResourceNotFound(str(metadata.remote_log_segment_id))
        return stored


class _Stream(io.BytesIO):
    def __init__(self, data: bytes, bytes_at_most: int) -> None:
        super().__init__(data)
        self._bytes_at_most = bytes_at_most

    def read(self, size: int | None = -1, /) -> bytes:
        at_most = self._bytes_at_most
        return super().read(at_most if size is None or size < 0 else min(size, at_most))


@dataclass
class LocalPart:
    """A log whose local log start is `local_log_start_offset`, for the remote reader."""

    log: PartitionLog
    local_log_start_offset: Offset

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        return self.log.leader_epochs

    def aborted_transactions(self, start: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
        return [
            transaction
            for transaction in self.log.aborted_transactions(start, upper_bound)
            if transaction.last_offset >= self.local_log_start_offset
        ]


_ids = iter(range(1, 1 << 40))
_ids_lock = threading.Lock()


def segment_metadata(
    log: PartitionLog, segment: LogSegment, *, knows_empty_txn_index: bool = True
) -> RemoteLogSegmentMetadata:
    """Return the metadata of a sealed segment when it is copied."""
    following = log.segments.higher(segment.base_offset)
    end = log.log_end_offset if following is None else following.base_offset
    epochs = log.leader_epochs.entries_in_range(segment.base_offset, end)
    with _ids_lock:
        segment_id = RemoteLogSegmentId(PARTITION, UUID(int=next(_ids)))
    return RemoteLogSegmentMetadata(
        segment_id,
        segment.base_offset,
        end - 1,
        max_timestamp_ms=segment.largest_timestamp(),
        broker_id=1,
        event_timestamp_ms=1,
        segment_size_bytes=segment.size_bytes,
        segment_leader_epochs=tuple(EpochEntry(*entry) for entry in epochs),
        is_txn_index_empty=knows_empty_txn_index and not segment.txn_index.entry_count,
    )


def store(
    tier: MemoryTier, log: PartitionLog, segment: LogSegment, metadata: RemoteLogSegmentMetadata
) -> None:
    """Store the bytes of a segment in the tier."""
    segment.complete_indexes()
    transactions = segment.txn_index.file
    indexes = {
        IndexType.OFFSET: segment.offset_index.file.pread(1 << 30, 0),
        IndexType.TIMESTAMP: segment.time_index.file.pread(1 << 30, 0),
        IndexType.LEADER_EPOCH: encode_leader_epochs(
            log.leader_epochs.entries_in_range(0, metadata.end_offset + 1)
        ),
        IndexType.PRODUCER_SNAPSHOT: b"producers",
    }
    if transactions.size():
        indexes[IndexType.TRANSACTION] = transactions.pread(transactions.size(), 0)
    tier.segments[metadata.remote_log_segment_id.id] = StoredSegment(
        segment.file.pread(segment.size_bytes, 0), indexes
    )


async def copy_sealed_segments(
    log: PartitionLog,
    tier: MemoryTier,
    manager: InMemoryRemoteLogMetadataManager,
    *,
    knows_empty_txn_index: bool = True,
) -> list[RemoteLogSegmentMetadata]:
    """Copy every segment except the active one, and record it as finished."""
    manager.on_partition_leadership_changes([PARTITION], [])
    copied = []
    for segment in log.segments:
        if segment is log.segments.active:
            break
        metadata = segment_metadata(log, segment, knows_empty_txn_index=knows_empty_txn_index)
        store(tier, log, segment, metadata)
        await note_copied(manager, metadata)
        copied.append(replace(metadata, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    return copied


async def note_copied(manager: InMemoryRemoteLogMetadataManager, metadata: RemoteLogSegmentMetadata) -> None:
    """Write both records of a copy."""
    await manager.add_remote_log_segment_metadata(metadata)
    await manager.update_remote_log_segment_metadata(
        RemoteLogSegmentMetadataUpdate(
            metadata.remote_log_segment_id, 2, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, 1
        )
    )
