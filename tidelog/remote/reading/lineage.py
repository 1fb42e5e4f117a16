"""Which remote segments, and which parts of them, belong to a log: decided by the log's leader epochs.

After an unclean election, remote storage may contain records that the log never had, even in the same epochs.
A segment is read only from an epoch that the log has too, and only up to the offset where the two lineages
diverge. Everything here is pure and runs on the event loop.

Source: RemoteLogManager.fetchRemoteLogSegmentMetadata, findOffsetByTimestamp of Apache Kafka 4.3; KIP-405,
"log divergence with remote storage".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.protocol.ids import ENDLESS, LeaderEpoch, Offset
from tidelog.remote.ports.metadata_manager import SegmentQueries
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.storage.leader_epoch import LeaderEpochCache, entries_with_records, epoch_spans

PAUSE_SEGMENTS: Final = 256

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class SegmentPart(NamedTuple):
    """The offsets from `start_offset` to `end_offset` (exclusive) of a remote segment."""

    metadata: RemoteLogSegmentMetadata
    start_offset: Offset
    end_offset: Offset


def part_at(
    manager: SegmentQueries,
    partition: TopicIdPartition,
    epochs: LeaderEpochCache,
    offset: Offset,
) -> SegmentPart | None:
    """Return the readable part, from `offset`, of the segment that contains it; None if there is none."""
    epoch = epochs.epoch_for_offset(offset)
    if epoch is None:
        return None
    metadata = manager.remote_log_segment_metadata(partition, epoch, offset)
    return None if metadata is None else SegmentPart(metadata, offset, common_end(metadata, epochs, epoch))


def common_end(metadata: RemoteLogSegmentMetadata, epochs: LeaderEpochCache, epoch: LeaderEpoch) -> Offset:
    """Return the offset (exclusive) up to which segment and log agree from `epoch`, which both have."""
    segment_epochs = entries_with_records(metadata.segment_leader_epochs)
    while True:
        log_next = epochs.next_epoch(epoch)
        log_next_start = None if log_next is None else epochs.start_offset_of(log_next)
        log_end = ENDLESS if log_next_start is None else log_next_start
        segment_next = next((start for start in segment_epochs if start.epoch > epoch), None)
        if segment_next is None:
            return min(log_end, metadata.end_offset + 1)
        if (log_next, log_next_start) != segment_next:
            return min(log_end, segment_next.start_offset)
        epoch = segment_next.epoch


def parts_with_aborted_transactions(
    manager: SegmentQueries,
    partition: TopicIdPartition,
    epochs: LeaderEpochCache,
    offset: Offset,
    end_offset: Offset,
) -> Iterator[SegmentPart]:
    """Return the parts of segments that start in [`offset`, `end_offset`) and may have aborted transactions.

    Segments that certainly have none are skipped (KAFKA-16780).
    """
    while offset < end_offset:
        part = _next_with_aborted_transactions(manager, partition, epochs, offset)
        if part is None or part.start_offset >= end_offset:
            return
        yield part
        offset = part.end_offset


def _next_with_aborted_transactions(
    manager: SegmentQueries, partition: TopicIdPartition, epochs: LeaderEpochCache, offset: Offset
) -> SegmentPart | None:
    first = epochs.epoch_for_offset(offset)
    for epoch, epoch_start, epoch_end in epoch_spans(epochs.entries, ENDLESS):
        if first is None or epoch < first:
            continue
        start = max(epoch_start, offset)
        metadata = manager.next_segment_with_txn_index(partition, epoch, start)
        part = None if metadata is None else _part_in_epoch(metadata, epoch, start, epoch_end)
        if part is not None:
            return part._replace(end_offset=common_end(part.metadata, epochs, epoch))
    return None


def parts_with_timestamp(
    manager: SegmentQueries,
    partition: TopicIdPartition,
    epochs: LeaderEpochCache,
    timestamp: int,
    starting_offset: Offset,
) -> Iterator[SegmentPart | None]:
    """Return the parts of segments, by offset, that may contain a record at or after `timestamp`.

    A segment counts for an epoch only if it serves an offset of that epoch. After every PAUSE_SEGMENTS
    segments, None is yielded, at which the caller may let other tasks run.
    """
    first = epochs.epoch_for_offset(starting_offset)
    segment_count = 0
    for epoch, epoch_start, epoch_end in epoch_spans(epochs.entries, ENDLESS):
        if first is not None and epoch < first:
            continue
        for metadata in manager.list_remote_log_segments(partition, epoch):
            segment_count += 1
            if segment_count % PAUSE_SEGMENTS == 0:
                yield None
            if metadata.max_timestamp_ms < timestamp or metadata.state is not _FINISHED:
                continue
            part = _part_in_epoch(metadata, epoch, max(epoch_start, starting_offset), epoch_end)
            if part is not None and _serves_any_of(manager, partition, epoch, part):
                yield part


def _serves_any_of(
    manager: SegmentQueries, partition: TopicIdPartition, epoch: LeaderEpoch, part: SegmentPart
) -> bool:
    """Return whether the part's segment serves at least one of the part's offsets to readers of `epoch`.

    A segment that was finished later may hide its first or last records, or all of them (KAFKA-16890).
    """
    offset = part.start_offset
    while offset < part.end_offset:
        served = manager.remote_log_segment_metadata(partition, epoch, offset)
        if served is None:
            return False  # The part's own segment is being deleted.
        if served.remote_log_segment_id == part.metadata.remote_log_segment_id:
            return True
        hidden = _part_in_epoch(served, epoch, offset, part.end_offset)
        assert hidden is not None, (served, epoch, offset)
        offset = hidden.end_offset
    return False


def _part_in_epoch(
    metadata: RemoteLogSegmentMetadata, epoch: LeaderEpoch, start: Offset, end: Offset
) -> SegmentPart | None:
    """Return the part of [`start`, `end`) that the segment contains in `epoch`."""
    starts = metadata.segment_leader_epochs
    for index, entry in enumerate(starts):
        if entry.epoch == epoch:
            following = starts[index + 1].start_offset if index + 1 < len(starts) else metadata.end_offset + 1
            part = SegmentPart(metadata, max(start, entry.start_offset), min(end, following))
            return part if part.start_offset < part.end_offset else None
    return None
