"""What was gathered of one partition, all of about one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tidelog.protocol.ids import ENDLESS, LeaderEpoch, Offset
from tidelog.remote.inspection.history import PartitionHistory
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.tasks.remote_lineage import EpochLineage
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.leader_epoch import EpochEntry

NOTHING: Final = -1

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """What the leader answers to ListOffsets and OffsetForLeaderEpoch."""

    log_start_offset: Offset
    local_log_start_offset: Offset
    highest_offset_in_remote_storage: Offset = NOTHING
    earliest_pending_upload_offset: Offset | None = None
    """None when the leader does not know, or is too old to be asked."""
    last_stable_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition; `lineage` are the leader epochs of its log, from the log start on.

    `now_ms` is the moment at which it was seen.
    """

    partition: TopicIdPartition
    offsets: PartitionOffsets
    lineage: tuple[EpochEntry, ...]
    history: PartitionHistory
    config: LogConfig = field(default_factory=LogConfig)
    local_size_bytes: int | None = None
    now_ms: int = 0

    segments: tuple[RemoteLogSegmentMetadata, ...] = field(init=False, repr=False, compare=False)
    """Every segment that is known and not deleted, by start offset."""

    epoch_spans: Mapping[LeaderEpoch, tuple[Offset, Offset]] = field(init=False, repr=False, compare=False)
    """Where each epoch of the lineage starts, and the next one; the last one has no end."""

    def __post_init__(self) -> None:
        spans = {epoch: (start, end) for epoch, start, end in epoch_spans(self.lineage, ENDLESS)}
        object.__setattr__(self, "epoch_spans", spans)
        object.__setattr__(self, "segments", tuple(self.history.cache.segments()))

    @property
    def epoch_lineage(self) -> EpochLineage:
        """The lineage, to be asked."""
        return EpochLineage(self.lineage)

    def with_log_start(self, log_start_offset: Offset) -> PartitionView:
        """The same with a log start that was asked for later."""
        later = max(self.offsets.log_start_offset, log_start_offset)
        return replace(self, offsets=replace(self.offsets, log_start_offset=later))


def finished(segments: Sequence[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    """Those that readers may be given."""
    return [segment for segment in segments if segment.state is _FINISHED]


def epoch_spans(
    entries: Sequence[EpochEntry], end_offset: Offset
) -> Iterator[tuple[LeaderEpoch, Offset, Offset]]:
    """Each epoch with its first offset and the one behind its last."""
    ends = [*(entry.start_offset for entry in entries[1:]), end_offset]
    for (epoch, start), end in zip(entries, ends, strict=True):
        yield epoch, start, end
