"""The segments of a log on local disk, as input of the plans of copying and retention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment


class LocalSegment(NamedTuple):
    """A segment on local disk: offsets [`base_offset`, `end_offset`)."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    largest_timestamp_ms: int


def local_segments(log: PartitionLog) -> list[LocalSegment]:
    """Return the segments of a log, oldest first; the last one is active."""
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    return [
        LocalSegment(segment.base_offset, end, segment.size_bytes, segment.largest_timestamp())
        for segment, end in zip(segments, ends, strict=True)
    ]


def find_segment(log: PartitionLog, planned: LocalSegment) -> LogSegment | None:
    """Return the `planned` segment if it is still in the log, sealed and unchanged, else None."""
    segment = log.segments.floor(planned.base_offset)
    if segment is None or segment.base_offset != planned.base_offset:
        return None
    following = log.segments.higher(segment.base_offset)
    is_same = following is not None and following.base_offset == planned.end_offset
    return segment if is_same and segment.size_bytes == planned.size_bytes else None


def local_only_bytes(segments: Sequence[LocalSegment], copied_offset: Offset) -> int:
    """Return the size of the segments of which no record is in remote storage.

    A segment that is partly in remote storage does not count, so that no byte counts twice: a total that is
    too large would delete records that must be kept (KAFKA-20732).
    """
    return sum(segment.size_bytes for segment in segments if segment.base_offset > copied_offset)
