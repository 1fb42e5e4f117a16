"""Which remote segments are deleted next, by which rule, and when. Pure.

Segments that are deleted now are those of the leader's own plan (`tidelog.remote.expiry.plan`). The following
segments are deleted in order, each by time or by the growth of the log, and not before the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tidelog.remote.expiry.plan import ExpirationView, Reason, Retention, plan_expiration
from tidelog.remote.inspection.coverage import pieces
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.remote_lineage import highest_remote_offset
from tidelog.storage.leader_epoch import LeaderEpochCache


class ScheduledDeletion(NamedTuple):
    """The deletion of a segment: at the latest at `at_ms`, or when the log has grown by `after_bytes`.

    None: never by that rule. A segment that is deleted now has a `reason`.
    """

    segment: RemoteLogSegmentMetadata
    reason: Reason | None = None
    at_ms: int | None = None
    after_bytes: int | None = None


def scheduled_deletions(view: PartitionView, count: int) -> list[ScheduledDeletion]:
    """Return all segments that are deleted now, and the next `count` ones."""
    plan = plan_expiration(_expiration_view(view))
    current = [ScheduledDeletion(deletion.segment, deletion.reason) for deletion in plan.deletions]
    deleted_ids = {deletion.segment.remote_log_segment_id for deletion in current}
    remaining = [
        segment
        for segment in finished_segments(view.segments)
        if segment.remote_log_segment_id not in deleted_ids and any(pieces(view, segment))
    ]
    return current + list(islice(_later_deletions(view, remaining), count))


def local_only_bytes(view: PartitionView) -> int:
    """Return an estimate of the bytes that are only on the leader's disk; 0 if unknown."""
    if view.local_size_bytes is None:
        return 0
    local_start = view.offsets.local_log_start_offset
    in_both = sum(
        segment.segment_size_bytes
        for segment in finished_segments(view.segments)
        if segment.start_offset >= local_start and any(pieces(view, segment))
    )
    return max(0, view.local_size_bytes - in_both)


def _later_deletions(
    view: PartitionView, remaining: list[RemoteLogSegmentMetadata]
) -> Iterator[ScheduledDeletion]:
    retention = Retention.of(view.config)
    remaining_bytes = local_only_bytes(view) + sum(segment.segment_size_bytes for segment in remaining)
    at_ms = None
    if retention == Retention():
        return
    for segment in remaining:
        if retention.retention_ms is not None:
            at_ms = max(at_ms or 0, segment.max_timestamp_ms + retention.retention_ms)
        # It is deleted when the excess is at least its size.
        remaining_bytes -= segment.segment_size_bytes
        after_bytes = None
        if retention.retention_bytes is not None:
            after_bytes = max(0, retention.retention_bytes - remaining_bytes)
        yield ScheduledDeletion(segment, None, at_ms, after_bytes)


def _expiration_view(view: PartitionView) -> ExpirationView:
    offsets = view.offsets
    return ExpirationView(
        segments=view.segments,
        epochs=view.lineage,
        log_start_offset=offsets.log_start_offset,
        high_watermark=offsets.high_watermark,
        log_end_offset=offsets.log_end_offset,
        copied_offset=highest_remote_offset(
            LeaderEpochCache.of(view.lineage), offsets.log_end_offset, view.history.cache.highest_offset
        ),
        local_only_bytes=local_only_bytes(view),
        retention=Retention.of(view.config),
        now_ms=view.now_ms,
    )
