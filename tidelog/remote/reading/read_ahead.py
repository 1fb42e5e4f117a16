"""Telling a storage manager early which segments a reader will come to next.

Within a segment a storage manager sees by itself that somebody reads on; which segments are wanted behind it
only the metadata tell. They are announced as far ahead as the storage manager reads within a segment: a store
takes its time for each of manifest, indexes and first chunk.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple, Protocol, runtime_checkable

from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

READERS_MAX: Final = 1024
SEGMENTS_AT_ONCE_MAX: Final = 8
"""How many segments one read has announced at most."""


@runtime_checkable
class Prefetching(Protocol):
    """What a storage manager may offer besides its port."""

    @property
    def read_ahead_bytes(self) -> int:
        """How far behind a position reads look ahead; 0 when they do not."""
        ...

    def prefetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, position: int = 0, *, with_indexes: bool = False
    ) -> None:
        """Begin to bring the segment's first bytes near; returns at once, and what fails is not told.

        Every reader announces a segment for itself, so what is near may be announced again.
        """
        ...


class Announced(NamedTuple):
    """How far a reader's way is announced: before which offset, and how many bytes are left until there."""

    end_offset: Offset
    bytes_left: int

    def after(self, metadata: RemoteLogSegmentMetadata, position: int, read_bytes: int) -> Announced:
        """The same when `read_bytes` more, up to `position` of a segment, were read."""
        if self.end_offset <= metadata.end_offset + 1:
            return Announced(metadata.end_offset + 1, metadata.segment_size_bytes - position)
        return Announced(self.end_offset, self.bytes_left - read_bytes)

    def and_segment(self, metadata: RemoteLogSegmentMetadata) -> Announced:
        """The same with one more segment."""
        return Announced(metadata.end_offset + 1, self.bytes_left + metadata.segment_size_bytes)


NOTHING_ANNOUNCED: Final = Announced(-1, 0)


class SequentialReads:
    """Remembers where reads ended, and what was announced then, to know those that go on there.

    Bounds: READERS_MAX ends of reads.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[tuple[TopicIdPartition, Offset], Announced] = OrderedDict()

    def expects(self, partition: TopicIdPartition, offset: Offset) -> bool:
        """Whether a read ended at `offset`."""
        return (partition, offset) in self._ends

    def take(self, partition: TopicIdPartition, offset: Offset) -> Announced | None:
        """What was announced by the read that ended at `offset`; None when none did."""
        return self._ends.pop((partition, offset), None)

    def note(self, partition: TopicIdPartition, next_offset: Offset, announced: Announced) -> None:
        """A read ended at `next_offset`."""
        self._ends[partition, next_offset] = announced
        if len(self._ends) > READERS_MAX:
            self._ends.popitem(last=False)
