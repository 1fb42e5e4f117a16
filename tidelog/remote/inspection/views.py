"""The gathered data of one partition, all of about the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import ENDLESS, LeaderEpoch, Offset
from tidelog.remote.inspection.history import PartitionHistory
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.tasks.remote_lineage import EpochLineage
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.leader_epoch import EpochEntry, epoch_spans

NOTHING: Final = -1
"""The highest remote offset if remote storage has no segment of the log."""

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The leader's responses to ListOffsets and OffsetForLeaderEpoch."""

    log_start_offset: Offset
    local_log_start_offset: Offset
    highest_offset_in_remote_storage: Offset = NOTHING
    earliest_pending_upload_offset: Offset | None = None
    """None if the leader does not know it, or is too old."""
    last_stable_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition; `lineage` contains the leader epochs of its log from the log start.

    `now_ms` is the time of the view.
    """

    partition: TopicIdPartition
    offsets: PartitionOffsets
    lineage: tuple[EpochEntry, ...]
    history: PartitionHistory
    config: LogConfig = DEFAULT_LOG_CONFIG
    local_size_bytes: int | None = None
    now_ms: int = 0

    segments: tuple[RemoteLogSegmentMetadata, ...] = field(init=False, repr=False, compare=False)
    """Every known segment that is not deleted, by start offset."""

    epoch_spans: Mapping[LeaderEpoch, tuple[Offset, Offset]] = field(init=False, repr=False, compare=False)
    """The start and the end (exclusive) of each epoch of the lineage; the end of the last one is ENDLESS."""

    def __post_init__(self) -> None:
        spans = {epoch: (start, end) for epoch, start, end in epoch_spans(self.lineage, ENDLESS)}
        object.__setattr__(self, "epoch_spans", spans)
        object.__setattr__(self, "segments", tuple(self.history.cache.segments()))

    @property
    def epoch_lineage(self) -> EpochLineage:
        """The lineage for queries."""
        return EpochLineage(self.lineage)

    def with_log_start(self, log_start_offset: Offset) -> PartitionView:
        """Return the same view with a log start that was requested later."""
        log_start = max(self.offsets.log_start_offset, log_start_offset)
        return replace(self, offsets=replace(self.offsets, log_start_offset=log_start))


def finished_segments(segments: Sequence[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    """Return those of `segments` that are copied completely and not being deleted: readers use them."""
    return [segment for segment in segments if segment.state is _FINISHED]
