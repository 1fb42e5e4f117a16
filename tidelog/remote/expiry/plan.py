"""Which remote segments a leader deletes, and where the log starts afterwards: pure decisions.

    time, size       the oldest segments of the log, until the first that may stay; the log start moves first
    log start        what is wholly below it (DeleteRecords, or a former leader did not come to the end)
    epoch            what was written in epochs before all of the log's: nobody reads it (unclean election)
    dangling copy    a copy that its leader never finished, once another segment holds the same records
    deletion         one that was started and not finished, by whomever

What counts for size is what is only on local disk, and finished segments of the log; where two of them
overlap, because another leader copied some records again, the overlap counts once. Bytes that were counted
twice would make the log look too large and delete what should be kept (KAFKA-17062, KAFKA-20732).

A dangling copy is safe to delete only when it is not needed: its leader may be alive and finish it at this
very moment, and whoever hears of that counts on it.

Source: RemoteLogManager.RLMExpirationTask of Apache Kafka 4.3; KAFKA-15352, KAFKA-15414, KAFKA-17428.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.remote.tasks.remote_lineage import EpochLineage
from tidelog.storage.config.log_config import LogConfig

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


class Reason(Enum):
    """Why a segment goes; see the module."""

    RETENTION_TIME = "it is older than retention.ms"
    RETENTION_SIZE = "the log is larger than retention.bytes"
    LOG_START = "the log starts behind it"
    UNREACHABLE_EPOCH = "the log knows none of its epochs and starts in a later one"
    DANGLING_COPY = "its copy was not finished, and another segment holds the same records"
    UNFINISHED_DELETION = "its deletion was not finished"


class Deletion(NamedTuple):
    """One segment to delete."""

    segment: RemoteLogSegmentMetadata
    reason: Reason


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of a log in total; None is no limit."""

    retention_ms: int | None = None
    retention_bytes: int | None = None

    @classmethod
    def of(cls, config: LogConfig) -> Retention:
        """The limits of a topic: none when its cleanup.policy does not delete (KIP-1161)."""
        if not config.is_deleted_by_retention:
            return cls()
        return cls(
            config.retention_ms if config.retention_ms >= 0 else None,
            config.retention_bytes if config.retention_bytes >= 0 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirationView:
    """What a decision is made from, all of it of one moment.

    Invariant: `segments` are those that the metadata has in any state but DELETE_SEGMENT_FINISHED.
    """

    segments: Sequence[RemoteLogSegmentMetadata]
    epochs: Sequence[tuple[LeaderEpoch, Offset]]
    """The log's leader epochs and where each starts."""
    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    copied_offset: Offset
    """The last offset in remote storage; all from the log start up to it is in finished segments."""
    local_only_bytes: int
    in_progress: Collection[UUID] = ()
    """Segments that a task of this node works on."""
    retention: Retention = Retention()
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class QuietWithin:
    """How far time and the log may go on until there may be something to delete, all else being equal.

    What has to be equal: the segments, the log's epochs, where it starts, also on local disk, its retention.
    """

    segments_end_offset: Offset
    """Behind the last segment; the log must not be cut to here."""
    expires_ms: int | None
    """When the oldest segment is too old; None is never."""
    local_only_bytes_max: int | None
    """So many bytes on local disk only leave the log small enough for the oldest segment; None is any."""

    def holds(
        self, now_ms: int, local_only_bytes: int, high_watermark: Offset, log_end_offset: Offset
    ) -> bool:
        """Whether there is still nothing to delete."""
        return (
            self.segments_end_offset <= min(high_watermark, log_end_offset)
            and (self.expires_ms is None or now_ms < self.expires_ms)
            and (self.local_only_bytes_max is None or local_only_bytes <= self.local_only_bytes_max)
        )


@dataclass(frozen=True, slots=True)
class ExpirationPlan:
    """First the log start moves, then the segments go, in this order."""

    log_start_offset: Offset | None
    """Where the log starts from now on; None leaves it."""
    deletions: tuple[Deletion, ...]
    quiet: QuietWithin | None = field(default=None, compare=False)
    """When there is nothing to do and that can be foretold: until when."""


def plan_expiration(view: ExpirationView) -> ExpirationPlan:
    """What to delete; nothing that a task of this node works on."""
    lineage = EpochLineage(view.epochs)
    chosen: dict[UUID, Deletion] = {}
    kept: list[RemoteLogSegmentMetadata] = []
    for segment in sorted(view.segments, key=lambda each: (each.start_offset, each.end_offset)):
        reason = None
        if segment.remote_log_segment_id.id not in view.in_progress:
            reason = _reason_whatever_its_age(segment, view, lineage)
        if reason is None:
            kept.append(segment)
        else:
            chosen[segment.remote_log_segment_id.id] = Deletion(segment, reason)
    log_start_offset = None
    for deletion in _expired(kept, view, lineage):
        chosen[deletion.segment.remote_log_segment_id.id] = deletion
        log_start_offset = max(log_start_offset or 0, deletion.segment.end_offset + 1)
    if log_start_offset is not None and log_start_offset <= view.log_start_offset:
        log_start_offset = None
    quiet = None if chosen else _quiet(kept, view, lineage)
    return ExpirationPlan(log_start_offset, tuple(chosen.values()), quiet)


def _quiet(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage
) -> QuietWithin | None:
    """Until when nothing goes of `segments`, none of which goes now: until its oldest does."""
    if any(
        segment.state is not _FINISHED or segment.remote_log_segment_id.id in view.in_progress
        for segment in segments
    ):
        return None
    end_offset = max((segment.end_offset + 1 for segment in segments), default=0)
    oldest = next(_counted(segments, view, lineage), None)
    if end_offset > min(view.high_watermark, view.log_end_offset):
        return None
    if oldest is None:
        return QuietWithin(end_offset, None, None)
    segment, counted_bytes = oldest
    retention, expires_ms, local_max = view.retention, None, None
    if retention.retention_ms is not None:
        expires_ms = segment.max_timestamp_ms + retention.retention_ms
    if retention.retention_bytes is not None:
        remote_bytes = _remote_bytes_at_most(segments, view, lineage, retention.retention_bytes)
        local_max = retention.retention_bytes - remote_bytes + max(counted_bytes, 1) - 1
    return QuietWithin(end_offset, expires_ms, local_max)


def _reason_whatever_its_age(
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
    """Whether a log that knows who wrote all of it knows none of the segment's epochs as old as they are.

    A replica that came here lately may know its newest epochs only. Then its oldest one starts behind the
    log start, and older segments are in use.
    """
    first_epoch, first_offset = lineage.first_epoch, lineage.first_offset
    if first_epoch is None or first_offset is None or first_offset > view.log_start_offset:
        return False
    return all(epoch < first_epoch for epoch, _ in segment.segment_leader_epochs)


def _expired(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage
) -> Iterator[Deletion]:
    """The longest run of segments from the log's oldest on that are too old or too much.

    `segments` are sorted. What is not a finished part of the log neither goes nor ends the run.
    """
    retention = view.retention
    if retention.retention_ms is None and retention.retention_bytes is None:
        return
    excess_bytes = _excess_bytes(segments, view, lineage)
    expired_before_ms = None
    if retention.retention_ms is not None and view.now_ms >= retention.retention_ms:
        expired_before_ms = view.now_ms - retention.retention_ms
    for segment, counted_bytes in _counted(segments, view, lineage):
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
    return max(0, view.local_only_bytes + _remote_bytes_at_most(segments, view, lineage, limit) - limit)


def _remote_bytes_at_most(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage, limit: int
) -> int:
    """Bytes of the log in the tier; those of all segments where that many leave it within `limit`, too."""
    at_most = sum(segment.segment_size_bytes for segment in segments if segment.state is _FINISHED)
    if view.local_only_bytes + at_most <= limit:
        return at_most  # what follows looks at the epochs of every segment
    return sum(counted for _, counted in _counted(segments, view, lineage))


def _counted(
    segments: Sequence[RemoteLogSegmentMetadata], view: ExpirationView, lineage: EpochLineage
) -> Iterator[tuple[RemoteLogSegmentMetadata, int]]:
    """The finished segments of the log and how many of their bytes no earlier one has.

    Where two overlap, the share is that of the offsets, rounded down: rather too few than too many.
    """
    counted_up_to = -1
    for segment in segments:
        if segment.state is not _FINISHED or not lineage.holds(segment, view.log_end_offset):
            continue
        offsets = segment.end_offset - segment.start_offset + 1
        new_offsets = segment.end_offset - max(segment.start_offset, counted_up_to + 1) + 1
        counted_up_to = max(counted_up_to, segment.end_offset)
        yield segment, segment.segment_size_bytes * max(0, new_offsets) // offsets
