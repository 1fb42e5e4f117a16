"""Which remote segments go next, by which rule, and when. Pure.

What goes now is what the leader's own plan says (`tidelog.remote.expiry.plan`). Behind that
the
segments go in their order, each when the clock or the log's growth says so, and not before those below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tidelog.remote.expiry.plan import ExpirationView, Reason, Retention, plan_expiration
from tidelog.remote.inspection.coverage import pieces
from tidelog.remote.inspection.views import PartitionView, finished
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.remote_lineage import highest_remote_offset
from tidelog.storage.leader_epoch import LeaderEpochCache


class Departure(NamedTuple):
    """A segment that goes: at the latest at `at_ms`, or when the log has grown by `after_bytes`.

    None: never by that rule. What goes now has a `reason`.
    """

    segment: RemoteLogSegmentMetadata
    reason: Reason | None = None
    at_ms: int | None = None
    after_bytes: int | None = None


def departures(view: PartitionView, count: int) -> list[Departure]:
    """What goes now, all of it, and the next `count` segments behind."""
    plan = plan_expiration(_expiration_view(view))
    now = [Departure(deletion.segment, deletion.reason) for deletion in plan.deletions]
    gone = {departure.segment.remote_log_segment_id for departure in now}
    staying = [
        segment
        for segment in finished(view.segments)
        if segment.remote_log_segment_id not in gone and any(pieces(view, segment))
    ]
    return now + list(islice(_later(view, staying), count))


def local_only_bytes(view: PartitionView) -> int:
    """Bytes on the leader's disk of which nothing is in the tier, as far as sizes tell; 0 when unknown."""
    if view.local_size_bytes is None:
        return 0
    local_start = view.offsets.local_log_start_offset
    in_both = sum(
        segment.segment_size_bytes
        for segment in finished(view.segments)
        if segment.start_offset >= local_start and any(pieces(view, segment))
    )
    return max(0, view.local_size_bytes - in_both)


def _later(view: PartitionView, staying: list[RemoteLogSegmentMetadata]) -> Iterator[Departure]:
    retention = Retention.of(view.config)
    kept_bytes = local_only_bytes(view) + sum(segment.segment_size_bytes for segment in staying)
    at_ms = None
    if retention == Retention():
        return
    for segment in staying:
        if retention.retention_ms is not None:
            at_ms = max(at_ms or 0, segment.max_timestamp_ms + retention.retention_ms)
        # It goes once at least its bytes are too many.
        kept_bytes -= segment.segment_size_bytes
        after_bytes = None
        if retention.retention_bytes is not None:
            after_bytes = max(0, retention.retention_bytes - kept_bytes)
        yield Departure(segment, None, at_ms, after_bytes)


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
