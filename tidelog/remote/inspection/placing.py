"""The location of an offset, and why it is not in remote storage yet. Pure.

    log start          local start            highest remote          last stable     high watermark
        |-- remote ----------|-- both -----------------|-- local ---------------------------|  beyond the end

No request of the protocol returns local segments, so that the active one can only be inferred.

Source: KIP-405; RemoteLogManager.RLMCopyTask of Apache Kafka 4.3; KIP-950, KIP-1241.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.inspection.findings import offsets_text, segment_name
from tidelog.remote.inspection.scheduled_deletions import local_only_bytes
from tidelog.remote.inspection.states import copy_in_progress, dangling_copies, since_text
from tidelog.remote.inspection.views import PartitionView
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata

_NO_LIMIT_MS: Final = 2**63 - 1


class Place(Enum):
    """The location of an offset."""

    BELOW_START = "below the log start: deleted"
    REMOTE = "in remote storage"
    BOTH = "in remote storage and on the leader's disk"
    LOCAL = "on the leader's disk only"
    BEYOND_END = "not written yet"
    NOWHERE = "it should be in remote storage, but no segment contains it"


@dataclass(frozen=True, slots=True)
class OffsetLocation:
    """The location of `offset`; `segment` is the one that serves readers."""

    offset: Offset
    place: Place
    epoch: LeaderEpoch | None = None
    segment: RemoteLogSegmentMetadata | None = None


class Obstacle(Enum):
    """The reason why an offset is not in remote storage."""

    TOPIC_NOT_TIERED = "remote.storage.enable is false"
    COPY_DISABLED = "remote.log.copy.disable is true (KIP-950)"
    NOT_STABLE = "not below the last stable offset: a transaction is open, or it is not replicated yet"
    STORE_FAILS = "the store does not respond, or refuses requests"
    COPYING = "a copy is in progress, or waits for the store"
    FAILED_COPY = "a copy was started and not finished: see the leader's log for errors"
    BACKLOG = "more than the active segment is waiting: copies are slow, throttled, or fail"
    EARLIER_FIRST = "segments are copied in order, and earlier ones are waiting"
    COPY_LAG = "the copy of recent segments is delayed (KIP-1241)"
    ACTIVE = "it may be in the active segment, which is copied after it is rolled"


class UploadReason(NamedTuple):
    """One reason with its values."""

    obstacle: Obstacle
    detail: str = ""
    since_ms: int | None = None
    """When the copy began that waits for the store."""


def locate(view: PartitionView, offset: Offset) -> OffsetLocation:
    """Return the location of `offset`."""
    offsets = view.offsets
    if offset < offsets.log_start_offset:
        return OffsetLocation(offset, Place.BELOW_START)
    if offset >= offsets.high_watermark:
        return OffsetLocation(offset, Place.BEYOND_END)
    epoch = view.epoch_lineage.epoch_at(offset)
    segment = None if epoch is None else view.history.cache.segment(epoch, offset)
    is_local = offset >= offsets.local_log_start_offset
    if segment is None:
        return OffsetLocation(offset, Place.LOCAL if is_local else Place.NOWHERE, epoch)
    return OffsetLocation(offset, Place.BOTH if is_local else Place.REMOTE, epoch, segment)


def pending_offset(view: PartitionView) -> Offset:
    """Return the first offset that is copied next."""
    offsets = view.offsets
    first = max(offsets.highest_offset_in_remote_storage + 1, offsets.log_start_offset)
    reported = offsets.earliest_pending_upload_offset
    return first if reported is None or reported < first else reported


def upload_reasons(
    view: PartitionView, offset: Offset, store_problem: str | None = None
) -> list[UploadReason]:
    """Return why `offset`, which is only local, is not in remote storage; certain reasons first.

    `store_problem` is the error of a request to the store, if it failed. Equal reasons are returned once,
    with their number.
    """
    reasons = Counter(_upload_reasons(view, offset, store_problem))
    return [
        reason if count == 1 else reason._replace(detail=f"{reason.detail}, {count} times")
        for reason, count in reasons.items()
    ]


def _upload_reasons(view: PartitionView, offset: Offset, store_problem: str | None) -> Iterator[UploadReason]:
    offsets, config = view.offsets, view.config
    if not config.remote_storage_enable:
        yield UploadReason(Obstacle.TOPIC_NOT_TIERED)
        return
    if config.remote_log_copy_disable:
        yield UploadReason(Obstacle.COPY_DISABLED)
        return
    if offset >= offsets.last_stable_offset:
        detail = f"it is {offsets.last_stable_offset}"
        if offsets.last_stable_offset < offsets.high_watermark:
            detail += f", the high watermark is {offsets.high_watermark}"
        yield UploadReason(Obstacle.NOT_STABLE, detail)
    if store_problem is not None:
        # While the store is not available, a copy is repeated with the same id and keeps its time.
        waiting = copy_in_progress(view, _NO_LIMIT_MS)
        since_ms = None if waiting is None else waiting.event_timestamp_ms
        yield UploadReason(Obstacle.STORE_FAILS, store_problem, since_ms)
    yield from _started_copies(view, offset)
    first = pending_offset(view)
    if first < offset:
        yield UploadReason(Obstacle.EARLIER_FIRST, f"next is offset {first}")
    # No segment, the active one included, is larger than segment.bytes.
    local_bytes = local_only_bytes(view)
    has_backlog = local_bytes > config.segment_bytes
    if has_backlog:
        yield UploadReason(Obstacle.BACKLOG, f"{local_bytes} bytes are on disk only")
    lag_ms, lag_bytes = config.effective_remote_copy_lag_ms, config.effective_remote_copy_lag_bytes
    if lag_ms != 0 and lag_bytes != 0:
        detail = f"remote.copy.lag.ms {_limit(lag_ms)}, remote.copy.lag.bytes {_limit(lag_bytes)}"
        yield UploadReason(Obstacle.COPY_LAG, detail)
    if first < offset or not has_backlog:
        detail = f"segment.bytes {config.segment_bytes}, segment.ms {config.segment_ms}"
        yield UploadReason(Obstacle.ACTIVE, detail)


def _started_copies(view: PartitionView, offset: Offset) -> Iterator[UploadReason]:
    """Return copies at or before `offset` that are in progress, or that failed."""
    highest = view.offsets.highest_offset_in_remote_storage
    copying = copy_in_progress(view)
    if copying is not None and copying.start_offset <= offset:
        yield UploadReason(Obstacle.COPYING, f"{segment_name(copying)}, {since_text(copying, view)}")
    for segment, reason in dangling_copies(view):
        if highest < segment.end_offset and segment.start_offset <= offset:
            span = offsets_text(segment.start_offset, segment.end_offset)
            yield UploadReason(Obstacle.FAILED_COPY, f"{span}, {reason}")
    for failed in view.history.failed.values():
        if highest < failed.end_offset and failed.start_offset <= offset:
            span = offsets_text(failed.start_offset, failed.end_offset)
            yield UploadReason(Obstacle.FAILED_COPY, f"{span}, {failed.attempts} attempts given up")


def _limit(value: int) -> str:
    return "unlimited" if value < 0 else str(value)
