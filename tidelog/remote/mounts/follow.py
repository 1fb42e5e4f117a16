"""How a mounted log follows its source. Pure.

    registered   0-49  50-99                              the log ends at 100
    found        100-149  180-229                         150-179 is not listed yet
    next         100-149                                  the log ends at 150; 180-229 waits

A listing may be older than the one before, or lack objects. So a segment is registered only when it continues
the log, or overlaps it. Segments that the source has deleted are dropped from the start of the log on: the
source deletes its oldest segments first. A segment that is missing within the log is kept, as at the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.recovered_log import RecoveredLog, ranges_in_log
from tidelog.storage.leader_epoch import EpochEntry


def continuing(
    registered: Collection[RemoteLogSegmentMetadata], found: Iterable[RemoteLogSegmentMetadata]
) -> tuple[list[RemoteLogSegmentMetadata], list[RemoteLogSegmentMetadata]]:
    """Return those of `found`, sorted by offset, that continue the log, and those that wait for others."""
    end: Offset | None = max((segment.end_offset + 1 for segment in registered), default=None)
    accepted, waiting = [], []
    for segment in found:
        if end is None or segment.start_offset <= end:
            accepted.append(segment)
            end = max(end or 0, segment.end_offset + 1)
        else:
            waiting.append(segment)
    return accepted, waiting


def deleted_at_start(
    segments: Iterable[RemoteLogSegmentMetadata], lineage: Sequence[EpochEntry], missing: Collection[UUID]
) -> list[RemoteLogSegmentMetadata]:
    """Return the missing segments at the start of the log, and those of other lineages."""
    ordered = sorted(segments, key=lambda segment: (segment.start_offset, segment.end_offset))
    deleted = []
    is_at_start = True
    for segment in ordered:
        is_missing = segment.remote_log_segment_id.id in missing
        is_in_log = next(ranges_in_log(segment, lineage), None) is not None
        if is_in_log and not is_missing:
            is_at_start = False
        elif is_missing and (is_at_start or not is_in_log):
            deleted.append(segment)
    return deleted


def log_start_after(
    log: RecoveredLog, deleted: Iterable[RemoteLogSegmentMetadata], lineage: Sequence[EpochEntry]
) -> Offset:
    """Return the start of the log when the segments `deleted` are gone."""
    ends = [each.end_offset for segment in deleted for each in ranges_in_log(segment, lineage)]
    return min(max([log.start_offset, *ends]), log.end_offset)
