"""Announcement of the next segments of a sequential reader to the storage manager.

Within a segment, the storage manager detects sequential reads itself; the next segment is known only from the
metadata. Segments are announced as far ahead as the storage manager reads within a segment, because a store
needs time for each manifest, index and first chunk.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple, Protocol, runtime_checkable

from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

READERS_MAX: Final = 1024
SEGMENTS_AT_ONCE_MAX: Final = 8
"""The maximum number of segments that one read announces."""


@runtime_checkable
class Prefetching(Protocol):
    """An optional interface of a storage manager."""

    @property
    def read_ahead_bytes(self) -> int:
        """The number of bytes that reads fetch ahead; 0 if they do not read ahead."""
        ...

    def prefetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, position: int = 0, *, with_indexes: bool = False
    ) -> None:
        """Start to fetch the segment's bytes from `position`; return at once, and report no errors.

        Every reader announces a segment itself, so that it may be announced repeatedly.
        """
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


class SequentialReads:
    """Tracks where reads ended and what they announced, to detect reads that continue there.

    Bounds: READERS_MAX ends of reads.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[tuple[TopicIdPartition, Offset], Announced] = OrderedDict()

    def expects(self, partition: TopicIdPartition, offset: Offset) -> bool:
        """Return whether a read ended at `offset`."""
        return (partition, offset) in self._ends

    def take(self, partition: TopicIdPartition, offset: Offset) -> Announced | None:
        """Remove and return the announcements of the read that ended at `offset`; None if there was none."""
        return self._ends.pop((partition, offset), None)

    def record(self, partition: TopicIdPartition, next_offset: Offset, announced: Announced) -> None:
        """Record a read that ended at `next_offset`."""
        self._ends[partition, next_offset] = announced
        if len(self._ends) > READERS_MAX:
            self._ends.popitem(last=False)
