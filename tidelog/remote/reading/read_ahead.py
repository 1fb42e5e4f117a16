"""Reads that continue where another read ended: their place in the segment, and the segments that follow.

Within a segment, the storage manager detects sequential reads itself; the next segments are known only from
the metadata. They are announced as far ahead as the storage manager reads within a segment. The manifests of
as many bytes after them are announced too, because a segment cannot be requested without its manifest, and a
store needs some time for each of them. A reader that begins at the start of a segment counts as sequential.

A read that continues another one needs no index: its first batch starts where the other read ended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from tidelog.protocol.ids import Offset
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.ports.metadata_manager import SegmentQueries
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.remote.reading.lineage import SegmentPart, part_at
from tidelog.remote.reading.requests import RemoteReadRequest

READERS_MAX: Final = 1024
SEGMENTS_AT_ONCE_MAX: Final = 8
"""The maximum number of segments, and of manifests, that one read announces."""


@runtime_checkable
class Prefetching(Protocol):
    """An optional interface of a storage manager. Its methods return at once, and report no errors.

    Every reader announces a segment itself, so that it may be announced repeatedly.
    """

    @property
    def read_ahead_bytes(self) -> int:
        """The number of bytes that reads fetch ahead; 0 if they do not read ahead."""
        ...

    def prefetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, position: int = 0, *, with_transactions: bool = False
    ) -> None:
        """Start to fetch the segment's bytes from `position`, and its transaction index if requested."""
        ...

    def prefetch_manifest(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Start to fetch what is needed to request bytes of the segment."""
        ...


class Announced(NamedTuple):
    """The progress of announcements: the first offset that is not announced, and the bytes left before it."""

    end_offset: Offset
    bytes_left: int

    def after(self, metadata: RemoteLogSegmentMetadata, position: int, read_bytes: int) -> Announced:
        """Return the progress after a read of `read_bytes` up to `position` of a segment."""
        if self.end_offset <= metadata.end_offset + 1:
            return Announced(metadata.end_offset + 1, metadata.segment_size_bytes - position)
        return Announced(self.end_offset, self.bytes_left - read_bytes)

    def plus_segment(self, metadata: RemoteLogSegmentMetadata) -> Announced:
        """Return the progress with one more segment."""
        return Announced(metadata.end_offset + 1, self.bytes_left + metadata.segment_size_bytes)


NOTHING_ANNOUNCED: Final = Announced(-1, 0)


class ReadEnd(NamedTuple):
    """The place where a read ended, and the segments and manifests that it announced."""

    segment_id: UUID
    position: int
    segments: Announced = NOTHING_ANNOUNCED
    manifests: Announced = NOTHING_ANNOUNCED


class SequentialReads:
    """Tracks where reads ended, to detect reads that continue there.

    Bounds: READERS_MAX ends of reads.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[tuple[TopicIdPartition, Offset], ReadEnd] = OrderedDict()

    def end_at(self, partition: TopicIdPartition, offset: Offset) -> ReadEnd | None:
        """Return the end of the read that ended at `offset`; None if there was none."""
        return self._ends.get((partition, offset))

    def record(self, partition: TopicIdPartition, offset: Offset, next_offset: Offset, end: ReadEnd) -> None:
        """Record a read from `offset` to `next_offset`, in place of the one that it continued."""
        self._ends.pop((partition, offset), None)
        self._ends[partition, next_offset] = end
        if len(self._ends) > READERS_MAX:
            self._ends.popitem(last=False)


class ReadAhead:
    """Finds the places of sequential reads, and announces the segments that follow. Used from one event loop.

    `prefetching` is the interface of the storage manager; None if it cannot fetch ahead.
    """

    def __init__(
        self, prefetching: Prefetching | None, metadata: SegmentQueries, index_cache: RemoteIndexCache
    ) -> None:
        self._prefetching = prefetching
        self._metadata = metadata
        self._index_cache = index_cache
        self._reads = SequentialReads()

    def begin(self, request: RemoteReadRequest, part: SegmentPart) -> ReadEnd | None:
        """Return the end of the read that a read of `part` continues; None if the read is not sequential."""
        metadata = part.metadata
        end = self._reads.end_at(request.topic_id_partition, part.start_offset)
        if part.start_offset != metadata.start_offset:
            return end if end is not None and end.segment_id == metadata.remote_log_segment_id.id else None
        if end is None:
            # The first chunks are fetched in parallel, before the read requests the first of them.
            self._prefetch(request, metadata)
            announced = Announced(metadata.end_offset + 1, metadata.segment_size_bytes)
            end = self._announce(request, ReadEnd(metadata.remote_log_segment_id.id, 0, announced, announced))
        return end._replace(segment_id=metadata.remote_log_segment_id.id, position=0)

    def record(
        self,
        request: RemoteReadRequest,
        part: SegmentPart,
        begun: ReadEnd | None,
        next_offset: Offset,
        end_position: int,
    ) -> None:
        """Record that a read of `part`, which `begin` returned `begun` for, ended at `next_offset`."""
        metadata = part.metadata
        end = ReadEnd(metadata.remote_log_segment_id.id, end_position)
        if begun is not None:
            read_bytes = end_position - begun.position
            end = self._announce(
                request,
                end._replace(
                    segments=begun.segments.after(metadata, end_position, read_bytes),
                    manifests=begun.manifests.after(metadata, end_position, read_bytes),
                ),
            )
        self._reads.record(request.topic_id_partition, part.start_offset, next_offset, end)

    def _announce(self, request: RemoteReadRequest, end: ReadEnd) -> ReadEnd:
        prefetching = self._prefetching
        if prefetching is None:
            return end
        window = prefetching.read_ahead_bytes
        segments, manifests = end.segments, end.manifests
        if segments.bytes_left < window:
            segments = self._extended(request, segments, window, partial(self._prefetch, request))
        if manifests.end_offset < segments.end_offset:
            manifests = segments
        if manifests.bytes_left < 2 * window:
            manifests = self._extended(request, manifests, 2 * window, prefetching.prefetch_manifest)
        return end._replace(segments=segments, manifests=manifests)

    def _prefetch(self, request: RemoteReadRequest, metadata: RemoteLogSegmentMetadata) -> None:
        if self._prefetching is not None:
            # Of the indexes, sequential reads need only that of aborted transactions.
            needs_index = (
                request.with_aborted
                and not metadata.is_txn_index_empty
                and not self._index_cache.holds_transaction_index(metadata)
            )
            self._prefetching.prefetch_log_segment(metadata, with_transactions=needs_index)

    def _extended(
        self,
        request: RemoteReadRequest,
        announced: Announced,
        bytes_ahead: int,
        announce: Callable[[RemoteLogSegmentMetadata], None],
    ) -> Announced:
        """Announce segments until `bytes_ahead` are announced, or the local log begins."""
        log = request.log
        for _ in range(SEGMENTS_AT_ONCE_MAX):
            next_offset = announced.end_offset
            if announced.bytes_left >= bytes_ahead or next_offset >= log.local_log_start_offset:
                break
            part = part_at(self._metadata, request.topic_id_partition, log.leader_epochs, next_offset)
            if part is None:
                break
            announce(part.metadata)
            announced = announced.plus_segment(part.metadata)
        return announced
