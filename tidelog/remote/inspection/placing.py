"""Where an offset is, and why it is not in the tier yet. Pure.

    log start          local start            highest remote          last stable     high watermark
        |-- remote ----------|-- both -----------------|-- local ---------------------------|  beyond the end

Local segments are not shown by any request of the protocol, so that the active one is known only by what
rules the others out.

Source: KIP-405; RemoteLogManager.RLMCopyTask of Apache Kafka 4.3; KIP-950, KIP-1241.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.inspection.departures import local_only_bytes
from tidelog.remote.inspection.findings import offsets_text
from tidelog.remote.inspection.history import segment_name
from tidelog.remote.inspection.states import copy_under_way, dangling_copies
from tidelog.remote.inspection.views import PartitionView
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


class Place(Enum):
    """Where an offset is."""

    BELOW_START = "below the log start: deleted"
    REMOTE = "in the tier"
    BOTH = "in the tier and on the leader's disk"
    LOCAL = "on the leader's disk only"
    BEYOND_END = "not written yet"
    NOWHERE = "it should be in the tier, but no segment holds it"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where `offset` is; `segment` is the one that readers are given."""

    offset: Offset
    place: Place
    epoch: LeaderEpoch | None = None
    segment: RemoteLogSegmentMetadata | None = None


class Obstacle(Enum):
    """Why an offset is not in the tier."""

    TOPIC_NOT_TIERED = "remote.storage.enable is false"
    COPY_DISABLED = "remote.log.copy.disable is true (KIP-950)"
    NOT_STABLE = "not below the last stable offset: a transaction is open, or followers lack it"
    COPYING = "a copy is under way"
    FAILED_COPY = "a copy began and did not end: look for errors in the leader's log"
    BACKLOG = "more than the active segment waits: copies are slow, limited, or fail"
    EARLIER_FIRST = "segments are copied in their order, earlier ones wait too"
    COPY_LAG = "young segments wait (KIP-1241)"
    ACTIVE = "otherwise its segment is the active one, which is copied after it rolls"


class UploadReason(NamedTuple):
    """One obstacle, with its figures."""

    obstacle: Obstacle
    detail: str = ""


def locate(view: PartitionView, offset: Offset) -> Whereabouts:
    """Where `offset` is."""
    offsets = view.offsets
    if offset < offsets.log_start_offset:
        return Whereabouts(offset, Place.BELOW_START)
    if offset >= offsets.high_watermark:
        return Whereabouts(offset, Place.BEYOND_END)
    epoch = view.epoch_lineage.epoch_at(offset)
    segment = None if epoch is None else view.history.cache.segment(epoch, offset)
    is_local = offset >= offsets.local_log_start_offset
    if segment is None:
        return Whereabouts(offset, Place.LOCAL if is_local else Place.NOWHERE, epoch)
    return Whereabouts(offset, Place.BOTH if is_local else Place.REMOTE, epoch, segment)


def pending_offset(view: PartitionView) -> Offset:
    """The first offset that is to be copied next."""
    offsets = view.offsets
    first = max(offsets.highest_offset_in_remote_storage + 1, offsets.log_start_offset)
    told = offsets.earliest_pending_upload_offset
    return first if told is None or told < first else told


def upload_reasons(view: PartitionView, offset: Offset) -> Iterator[UploadReason]:
    """Why `offset`, which is only local, is not in the tier: what is certain first."""
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
    yield from _begun_copies(view, offset)
    first = pending_offset(view)
    if first < offset:
        yield UploadReason(Obstacle.EARLIER_FIRST, f"next is offset {first}")
    # No segment, the active one included, is larger than segment.bytes.
    behind_bytes = local_only_bytes(view)
    has_backlog = behind_bytes > config.segment_bytes
    if has_backlog:
        yield UploadReason(Obstacle.BACKLOG, f"{behind_bytes} bytes are on disk only")
    lag_ms, lag_bytes = config.effective_remote_copy_lag_ms, config.effective_remote_copy_lag_bytes
    if lag_ms != 0 and lag_bytes != 0:
        detail = f"remote.copy.lag.ms {_limit(lag_ms)}, remote.copy.lag.bytes {_limit(lag_bytes)}"
        yield UploadReason(Obstacle.COPY_LAG, detail)
    if first < offset or not has_backlog:
        detail = f"segment.bytes {config.segment_bytes}, segment.ms {config.segment_ms}"
        yield UploadReason(Obstacle.ACTIVE, detail)


def _begun_copies(view: PartitionView, offset: Offset) -> Iterator[UploadReason]:
    """Copies at or before `offset` that are under way, or came to nothing."""
    highest = view.offsets.highest_offset_in_remote_storage
    copying = copy_under_way(view)
    if copying is not None and copying.start_offset <= offset:
        yield UploadReason(Obstacle.COPYING, segment_name(copying))
    for segment, reason in dangling_copies(view):
        if highest < segment.end_offset and segment.start_offset <= offset:
            yield UploadReason(Obstacle.FAILED_COPY, f"{segment_name(segment)}, {reason}")
    for failed in view.history.failed.values():
        if highest < failed.end_offset and failed.start_offset <= offset:
            span = offsets_text(failed.start_offset, failed.end_offset)
            yield UploadReason(Obstacle.FAILED_COPY, f"{span}, {failed.attempts} attempts given up")


def _limit(value: int) -> str:
    return "unlimited" if value < 0 else str(value)
