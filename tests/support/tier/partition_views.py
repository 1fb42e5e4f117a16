"""Partition views from few numbers: lineage, segments, log start and local log start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.support.configs import log_config
from tests.support.tier.segment_metadata import FINISHED, PARTITION, copy_start, step
from tidelog.protocol.ids import Offset
from tidelog.remote.inspection.history import PartitionHistory, RecordPlace
from tidelog.remote.inspection.views import PartitionOffsets, PartitionView
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.remote_lineage import highest_remote_offset
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache

NOW_MS = 10_000_000
TIERED = log_config(remote_storage_enable=True, retention_ms=-1)


def copy_events(
    number: int,
    start: Offset,
    end: Offset,
    epochs: Sequence[tuple[int, int]] | int = 0,
    size_bytes: int = 1000,
) -> list[RemoteLogEvent]:
    """Return both records of a finished copy."""
    return [copy_start(number, start, end, epochs, size_bytes=size_bytes), step(number, FINISHED)]


def history_of(events: Iterable[RemoteLogEvent]) -> PartitionHistory:
    """Return the history derived from the records."""
    history = PartitionHistory.empty(PARTITION)
    for number, event in enumerate(events):
        history.apply(event, RecordPlace(0, number))
    return history


def view_of(
    events: Iterable[RemoteLogEvent],
    lineage: Sequence[tuple[int, int]] = ((0, 0),),
    *,
    log_start: Offset = 0,
    local_start: Offset = 0,
    end: Offset = 1000,
    last_stable: Offset | None = None,
    config: LogConfig = TIERED,
    local_size_bytes: int | None = None,
) -> PartitionView:
    """Return the partition as a leader with complete metadata returns it."""
    history = history_of(events)
    entries = tuple(EpochEntry(*entry) for entry in lineage)
    offsets = PartitionOffsets(
        log_start_offset=log_start,
        local_log_start_offset=local_start,
        highest_offset_in_remote_storage=highest_remote_offset(
            LeaderEpochCache.of(entries), end, history.cache.highest_offset
        ),
        last_stable_offset=end if last_stable is None else last_stable,
        high_watermark=end,
        log_end_offset=end,
        leader_epoch=entries[-1].epoch if entries else 0,
    )
    return PartitionView(
        partition=PARTITION,
        offsets=offsets,
        lineage=entries,
        history=history,
        config=config,
        local_size_bytes=local_size_bytes,
        now_ms=NOW_MS,
    )


def ids(segments: Iterable[RemoteLogSegmentMetadata]) -> list[int]:
    """Return the numbers of segments."""
    return [segment.remote_log_segment_id.id.int - 1 for segment in segments]
