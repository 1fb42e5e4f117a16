"""Telling a storage manager early which segment a reader will come to next.

Within a segment a storage manager sees by itself that somebody reads on; that the segment behind it is
wanted only the metadata tell.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol, runtime_checkable
from uuid import UUID

from protocol.ids import Offset
from remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition

READERS_MAX: Final = 1024
AHEAD_BYTES: Final = 8 << 20


@runtime_checkable
class Prefetching(Protocol):
    """What a storage manager may offer besides its port."""

    def prefetch_log_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Begin to bring the segment's first bytes near; returns at once, and what fails is not told."""
        ...


class SequentialReads:
    """Remembers where reads ended, to know those that go on there.

    Bounds: READERS_MAX ends of reads, and as many segments that were announced.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[tuple[TopicIdPartition, Offset], None] = OrderedDict()
        self._announced: OrderedDict[UUID, None] = OrderedDict()

    def goes_on(self, partition: TopicIdPartition, offset: Offset, next_offset: Offset) -> bool:
        """Whether a read from `offset` to `next_offset` goes on where an earlier one ended."""
        was_expected = self._ends.pop((partition, offset), self) is None
        self._ends[partition, next_offset] = None
        if len(self._ends) > READERS_MAX:
            self._ends.popitem(last=False)
        return was_expected

    def is_news(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Whether the segment has not been announced lately."""
        segment_id = metadata.remote_log_segment_id.id
        if segment_id in self._announced:
            return False
        self._announced[segment_id] = None
        if len(self._announced) > READERS_MAX:
            self._announced.popitem(last=False)
        return True


def is_near_the_end(metadata: RemoteLogSegmentMetadata, position: int, read_bytes: int) -> bool:
    """Whether a few more reads like one of `read_bytes` that ended at `position` reach the next segment."""
    return metadata.segment_size_bytes - position <= max(AHEAD_BYTES, 2 * read_bytes)
