"""Segments and partitions whose copy or deletion does not progress. Pure.

A leader copies one segment of a partition at a time. Therefore a copy is in progress only if no copy began
after it, no other segment contains its records, and it is not older than `patience_ms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final
from uuid import UUID

from tidelog.protocol.ids import uuid_text
from tidelog.remote.inspection.coverage import pieces, stretches
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.inspection.history import MetadataHistory, PartitionHistory
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)

PATIENCE_MS: Final = 10 * 60 * 1000
"""The time after which a copy or a deletion is considered abandoned."""

_STARTED: Final = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_DELETING: Final = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


def state_findings(view: PartitionView, patience_ms: int = PATIENCE_MS) -> list[Finding]:
    """Return unfinished copies and deletions, and invalid records."""
    name = view.partition.topic_partition
    findings = []
    for segment, reason in dangling_copies(view, patience_ms):
        findings.append(Finding.of_segment(Kind.DANGLING_COPY, segment, detail=reason))
    for segment in view.segments:
        if segment.state is _DELETING and _age_ms(segment, view) > patience_ms:
            detail = since_text(segment, view)
            findings.append(Finding.of_segment(Kind.UNFINISHED_DELETION, segment, detail=detail))
    deletion = view.history.deletion
    if deletion is not None and view.now_ms - deletion.event_timestamp_ms > patience_ms:
        findings.append(Finding(Kind.UNFINISHED_PARTITION_DELETION, name, deletion.state.name))
    for place, event in view.history.illegal:
        findings.append(Finding(Kind.ILLEGAL_RECORD, name, str(place), event.state.name))
    return findings


def dangling_copies(
    view: PartitionView, patience_ms: int = PATIENCE_MS
) -> Iterator[tuple[RemoteLogSegmentMetadata, str]]:
    """Return copies that no node continues, each with the evidence."""
    started = sorted(
        (segment for segment in view.segments if segment.state is _STARTED),
        key=lambda segment: segment.event_timestamp_ms,
    )
    if not started:
        return
    copied_pieces = [piece for segment in finished_segments(view.segments) for piece in pieces(view, segment)]
    for number, segment in enumerate(started, 1):
        end = segment.end_offset + 1
        if all(stretch.segments for stretch in stretches(copied_pieces, segment.start_offset, end)):
            yield segment, "another segment contains the same records"
        elif number < len(started):
            yield segment, "another copy has begun since"
        elif _age_ms(segment, view) > patience_ms:
            yield segment, since_text(segment, view)


def copy_in_progress(view: PartitionView, patience_ms: int = PATIENCE_MS) -> RemoteLogSegmentMetadata | None:
    """Return the copy that a node may be working on, None if there is none."""
    dangling = {segment.remote_log_segment_id for segment, _ in dangling_copies(view, patience_ms)}
    for segment in view.segments:
        if segment.state is _STARTED and segment.remote_log_segment_id not in dangling:
            return segment
    return None


def history_findings(
    history: MetadataHistory, live_topic_ids: Collection[UUID], now_ms: int, patience_ms: int = PATIENCE_MS
) -> list[Finding]:
    """Return findings about the metadata topic as a whole, and about partitions of deleted topics."""
    findings = [
        Finding(Kind.UNREADABLE_RECORD, None, str(place), reason) for place, reason in history.unreadable
    ]
    for number, start in sorted(history.truncated.items()):
        place = f"metadata partition {number}"
        findings.append(Finding(Kind.LOST_HISTORY, None, place, f"begins at {start}"))
    for partition, partition_history in history:
        if partition.topic_id not in live_topic_ids:
            findings += _deleted_partition_findings(partition, partition_history, now_ms, patience_ms)
    return findings


def _deleted_partition_findings(
    partition: TopicIdPartition, history: PartitionHistory, now_ms: int, patience_ms: int
) -> Iterable[Finding]:
    place = f"topic id {uuid_text(partition.topic_id)}"
    segments = list(history.cache.segments())
    text = f"{len(segments)} segments"
    deletion = history.deletion
    if deletion is not None:
        if now_ms - deletion.event_timestamp_ms > patience_ms:
            detail = f"{text}, {deletion.state.name}"
            yield Finding(Kind.UNFINISHED_PARTITION_DELETION, partition.topic_partition, place, detail)
        return
    last = max((segment.event_timestamp_ms for segment in segments), default=now_ms)
    if now_ms - last > patience_ms:
        yield Finding(Kind.ABANDONED_PARTITION, partition.topic_partition, place, text)


def _age_ms(segment: RemoteLogSegmentMetadata, view: PartitionView) -> int:
    return view.now_ms - segment.event_timestamp_ms


def since_text(segment: RemoteLogSegmentMetadata, view: PartitionView) -> str:
    """Return for how long the segment has had its state."""
    return f"since {_age_ms(segment, view) // 1000} s"
