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
    """A sealed segment that is compacted, with its sizes in bytes and its end offset (exclusive)."""

    segment: LogSegment
    end_offset: Offset
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int

    @classmethod
    def of(cls, segment: LogSegment, end_offset: Offset) -> SourceSegment:
        """Return the segment with its current sizes."""
        offset_index, time_index = segment.offset_index, segment.time_index
        return cls(segment, end_offset, segment.size_bytes, offset_index.size_bytes, time_index.size_bytes)


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
    distance = source.end_offset - 1 - first.segment.base_offset
    return not source.size_bytes or distance <= MAX_RELATIVE_OFFSET
