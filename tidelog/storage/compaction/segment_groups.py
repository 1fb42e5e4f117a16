"""Which adjacent segments become one, so that compaction does not leave many small segments.

Source: Cleaner.groupSegmentsBySize of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.storage.segment.offset_index import MAX_RELATIVE_OFFSET
from tidelog.storage.segment.segment import LogSegment


class SourceSegment(NamedTuple):
    """A sealed segment that is compacted: its offsets (the end is exclusive) and its sizes in bytes."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int
    created_ms: int
    first_dirty_position: int
    """Where the dirty part begins, in bytes."""

    @classmethod
    def of(cls, segment: LogSegment, end_offset: Offset, first_dirty_offset: Offset) -> SourceSegment:
        """Return the segment with its current sizes. I/O: a short scan if the dirty part begins in it."""
        return cls(
            segment.base_offset,
            end_offset,
            segment.size_bytes,
            segment.offset_index.size_bytes,
            segment.time_index.size_bytes,
            segment.created_ms,
            _first_dirty_position(segment, end_offset, first_dirty_offset),
        )


def _first_dirty_position(segment: LogSegment, end_offset: Offset, first_dirty_offset: Offset) -> int:
    if first_dirty_offset <= segment.base_offset:
        return 0
    place = segment.find(first_dirty_offset) if first_dirty_offset < end_offset else None
    return segment.size_bytes if place is None else place.position


def group_segments(
    sources: Sequence[SourceSegment], segment_bytes: int, index_bytes: int
) -> list[list[SourceSegment]]:
    """Return groups of segments whose bytes, indexes and offsets fit into one segment unchanged."""
    groups: list[list[SourceSegment]] = []
    size = offset_index = time_index = 0
    for source in sources:
        size += source.size_bytes
        offset_index += source.offset_index_bytes
        time_index += source.time_index_bytes
        fits = size <= segment_bytes and offset_index <= index_bytes and time_index <= index_bytes
        if groups and fits and _is_near(source, groups[-1][0]):
            groups[-1].append(source)
            continue
        groups.append([source])
        size = source.size_bytes
        offset_index, time_index = source.offset_index_bytes, source.time_index_bytes
    return groups


def _is_near(source: SourceSegment, first: SourceSegment) -> bool:
    """Return whether an index that begins with `first` can contain all offsets; empty segments add none."""
    distance = source.end_offset - 1 - first.base_offset
    return not source.size_bytes or distance <= MAX_RELATIVE_OFFSET
