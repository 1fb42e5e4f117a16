"""Which remote segments a leader deletes, and where the log starts afterwards. Pure.

    time, size       the oldest segments of the log, up to the first that may stay; the log start moves first
    log start        segments completely below it (DeleteRecords, or a former leader's unfinished deletion)
    epoch            segments of epochs before all of the log's: they are never read (unclean election)
    dangling copy    a copy that its leader never finished, once another segment contains the same records
    deletion         a deletion that any node has started and not finished

The size consists of records that are only on local disk, and of finished segments of the log. Where two of
them overlap, because another leader copied records again, the overlap counts once. Bytes that count twice
would make the log look too large and delete records that must be kept (KAFKA-17062, KAFKA-20732).

A dangling copy is deleted only if it is not needed: its leader may be alive and finish it at this moment, and
other replicas would then rely on it.

Source: RemoteLogManager.RLMExpirationTask of Apache Kafka 4.3; KAFKA-15352, KAFKA-15414, KAFKA-17428.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset
from tidelog.remote.ports.metadata_manager import SegmentExcerpt
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.remote.tasks.remote_lineage import EpochLineage
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.leader_epoch import EpochEntry

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


class Reason(Enum):
    """The reason of a deletion; the value is the text of the log line."""

    RETENTION_TIME = "it is older than retention.ms"
    RETENTION_SIZE = "the log is larger than retention.bytes"
    LOG_START = "it is below the log start offset"
    UNREACHABLE_EPOCH = "the log has none of its leader epochs and starts in a later one"
    DANGLING_COPY = "its copy was not finished, and another segment contains the same records"
    UNFINISHED_DELETION = "its deletion was not finished"


class Deletion(NamedTuple):
    """One segment to delete."""

    segment: RemoteLogSegmentMetadata
    reason: Reason


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention limits of a log in total; None means no limit."""

    retention_ms: int | None = None
    retention_bytes: int | None = None

    @classmethod
    def of(cls, config: LogConfig) -> Retention:
        """Return the limits of a topic: none if its cleanup.policy does not delete (KIP-1161)."""
        if not config.is_deleted_by_retention:
            return cls()
        return cls(
            config.retention_ms if config.retention_ms >= 0 else None,
            config.retention_bytes if config.retention_bytes >= 0 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirationView:
    """The input of a plan, all of it of the same moment.

    Invariant: `segments` are those in the metadata in any state but DELETE_SEGMENT_FINISHED, perhaps without
    regular segments of the log (see `tidelog.remote.metadata.excerpt`) that are newer than a regular one of
    `segments`. The plan does not delete these if it does not delete that one.
    """

    segments: Sequence[RemoteLogSegmentMetadata]
    other_bytes: int = 0
    """The size of the regular segments that are not in `segments`."""
    other_end_offset: Offset = 0
    """The offset after the last of them."""
    epochs: Sequence[EpochEntry]
    """The log's leader epochs with their start offsets."""
    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    copied_offset: Offset
    """The last offset in remote storage; all offsets from the log start to it are in finished segments."""
    local_only_bytes: int
    in_progress: Collection[UUID] = ()
    """Segments on which a task of this node works."""
    retention: Retention = Retention()
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class IdleBounds:
    """Bounds of the time and of the log within which there is nothing to delete.

    They hold only while these do not change: the segments, the log's epochs, its start, its local start, and
    its retention.
    """

    segments_end_offset: Offset
    """The offset after the last segment; the log must not be truncated below it."""
    expires_ms: int | None
    """The time when the oldest segment becomes too old; None means never."""
    local_only_bytes_max: int | None
    """The maximum number of local-only bytes with which the log is not too large; None means no limit."""

    def contains(
        self, now_ms: int, local_only_bytes: int, high_watermark: Offset, log_end_offset: Offset
    ) -> bool:
        """Return whether there is still nothing to delete."""
        return (
            self.segments_end_offset <= min(high_watermark, log_end_offset)
            and (self.expires_ms is None or now_ms < self.expires_ms)
            and (self.local_only_bytes_max is None or local_only_bytes <= self.local_only_bytes_max)
        )


@dataclass(frozen=True, slots=True)
class ExpirationPlan:
    """The steps of an expiration: first the log start advances, then the segments are deleted in order."""

    log_start_offset: Offset | None
    """The new log start; None if it does not change."""
    deletions: tuple[Deletion, ...]
    idle: IdleBounds | None = field(default=None, compare=False)
    """The bounds within which there is nothing to delete; None if unknown, or if there are deletions."""


def plan_expiration(view: ExpirationView) -> ExpirationPlan:
    """Return what to delete, except segments on which a task of this node works."""
    lineage = EpochLineage(view.epochs)
    deletions: dict[UUID, Deletion] = {}
    remaining: list[RemoteLogSegmentMetadata] = []
    for segment in sorted(view.segments, key=_order):
        reason = None
        if segment.remote_log_segment_id.id not in view.in_progress:
            reason = _reason_besides_retention(segment, view, lineage)
        if reason is None:
            remaining.append(segment)
        else:
            deletions[segment.remote_log_segment_id.id] = Deletion(segment, reason)
    log_start_offset = None
    for deletion in _expired_deletions(remaining, view, lineage):
        deletions[deletion.segment.remote_log_segment_id.id] = deletion
        log_start_offset = max(log_start_offset or 0, deletion.segment.end_offset + 1)
    if log_start_offset is not None and log_start_offset <= view.log_start_offset:
        log_start_offset = None
    idle = None if deletions else _idle_bounds(remaining, view, lineage)
    return ExpirationPlan(log_start_offset, tuple(deletions.values()), idle)


def _order(segment: RemoteLogSegmentMetadata) -> tuple[Offset, Offset, UUID]:
    return segment.start_offset, segment.end_offset, segment.remote_log_segment_id.id


def plan_from_excerpt(view: ExpirationView, excerpt: SegmentExcerpt) -> ExpirationPlan | None:
    """Return the plan of all segments; None if more of them are deleted than `excerpt` has.

    `excerpt` must reach the log start offset of `view`.
    """
    plan = plan_expiration(
        replace(
            view,
            segments=excerpt.segments,
            other_bytes=excerpt.other_bytes,
            other_end_offset=excerpt.other_end_offset,
        )
    )
    last = excerpt.last_regular
    if last is not None and any(deletion.segment == last for deletion in plan.deletions):
        return None
    return plan


def _idle_bounds(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage
) -> IdleBounds | None:
    """Return the bounds within which none of `segments` is deleted: those of the oldest segment.

    `segments` are not deleted now. None if the bounds are not known.
    """
    if any(
        segment.state is not _FINISHED or segment.remote_log_segment_id.id in view.in_progress
        for segment in segments
    ):
        return None
    end_offset = max((segment.end_offset + 1 for segment in segments), default=0)
    end_offset = max(end_offset, view.other_end_offset)
    oldest = next(_with_counted_bytes(segments, view, lineage), None)
    if end_offset > min(view.high_watermark, view.log_end_offset):
        return None
    if oldest is None:
        return IdleBounds(end_offset, None, None)
    segment, counted_bytes = oldest
    retention, expires_ms, local_max = view.retention, None, None
    if retention.retention_ms is not None:
        expires_ms = segment.max_timestamp_ms + retention.retention_ms
    if retention.retention_bytes is not None:
        remote_bytes = _remote_bytes_bound(segments, view, lineage, retention.retention_bytes)
        local_max = retention.retention_bytes - remote_bytes + max(counted_bytes, 1) - 1
    return IdleBounds(end_offset, expires_ms, local_max)


def _reason_besides_retention(
    segment: RemoteLogSegmentMetadata, view: ExpirationView, lineage: EpochLineage
) -> Reason | None:
    if segment.state is _DELETING:
        return Reason.UNFINISHED_DELETION
    if segment.end_offset < view.log_start_offset:
        return Reason.LOG_START
    if _is_of_unreachable_epochs(segment, view, lineage):
        return Reason.UNREACHABLE_EPOCH
    if segment.state is _STARTED and segment.end_offset <= view.copied_offset:
        return Reason.DANGLING_COPY
    return None


def _is_of_unreachable_epochs(
    segment: RemoteLogSegmentMetadata, view: ExpirationView, lineage: EpochLineage
) -> bool:
    """Return whether all epochs of `segment` are older than those of the log.

    This requires that the log has the epochs of all its records. A replica that was created recently may
    have its newest epochs only. Then its oldest epoch starts after the log start, and older segments are in
    use.
    """
    first_epoch, first_offset = lineage.first_epoch, lineage.first_offset
    if first_epoch is None or first_offset is None or first_offset > view.log_start_offset:
        return False
    return all(epoch < first_epoch for epoch, _ in segment.segment_leader_epochs)


def _expired_deletions(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage
) -> Iterator[Deletion]:
    """Return the longest run of segments from the log's oldest one that are too old or exceed the size.

    `segments` are sorted. Segments that are not a finished part of the log are not deleted, and do not end
    the run.
    """
    retention = view.retention
    if retention.retention_ms is None and retention.retention_bytes is None:
        return
    excess_bytes = _excess_bytes(segments, view, lineage)
    expired_before_ms = None
    if retention.retention_ms is not None and view.now_ms >= retention.retention_ms:
        expired_before_ms = view.now_ms - retention.retention_ms
    for segment, counted_bytes in _with_counted_bytes(segments, view, lineage):
        if segment.remote_log_segment_id.id in view.in_progress or segment.end_offset >= view.high_watermark:
            return
        if expired_before_ms is not None and segment.max_timestamp_ms <= expired_before_ms:
            yield Deletion(segment, Reason.RETENTION_TIME)
        elif counted_bytes <= excess_bytes and excess_bytes > 0:
            yield Deletion(segment, Reason.RETENTION_SIZE)
        else:
            return
        excess_bytes = max(0, excess_bytes - counted_bytes)


def _excess_bytes(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage
) -> int:
    limit = view.retention.retention_bytes
    if limit is None:
        return 0
    return max(0, view.local_only_bytes + _remote_bytes_bound(segments, view, lineage, limit) - limit)


def _remote_bytes_bound(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage, limit: int
) -> int:
    """Return the size of the log in remote storage, or an upper bound that is within `limit`."""
    finished = sum(segment.segment_size_bytes for segment in segments if segment.state is _FINISHED)
    upper_bound = finished + view.other_bytes
    if view.local_only_bytes + upper_bound <= limit:
        return upper_bound  # the exact size needs the epochs of every segment
    return sum(counted for _, counted in _with_counted_bytes(segments, view, lineage)) + view.other_bytes


def _with_counted_bytes(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage
) -> Iterator[tuple[RemoteLogSegmentMetadata, int]]:
    """Return the finished segments of the log, each with the bytes that no earlier segment contains.

    Where two segments overlap, the bytes are estimated from the number of offsets and rounded down: too few
    bytes are better than too many.
    """
    counted_up_to = -1
    for segment in segments:
        if segment.state is not _FINISHED or not lineage.contains(segment, view.log_end_offset):
            continue
        offsets = segment.end_offset - segment.start_offset + 1
        new_offsets = segment.end_offset - max(segment.start_offset, counted_up_to + 1) + 1
        counted_up_to = max(counted_up_to, segment.end_offset)
        yield segment, segment.segment_size_bytes * max(0, new_offsets) // offsets
