"""The log that a set of remote segments contains, without any local record. Pure.

The newest segment has the highest last leader epoch, then the highest end offset. The leader-epoch checkpoint
that was stored with it is the lineage of the log up to its end: after an unclean election it excludes the
records that the elected leader did not have. The log starts where the records before the end have no gap.

    segments   0-49 (5, 0)   50-119 (5, 50)   80-99 (5, 50) (7, 80)
    lineage    (5, 0) (7, 80)              from 80-99, which has the highest epoch
    log        0-99                        80-119 of epoch 5 is of another lineage

Source: KIP-405, "unclean leader election"; KIP-101.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.protocol.ids import ENDLESS, LeaderEpoch, Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache, epoch_spans


class OffsetRange(NamedTuple):
    """Offsets from `start_offset` to `end_offset` (exclusive)."""

    start_offset: Offset
    end_offset: Offset


class RecoveredLog(NamedTuple):
    """A log from `start_offset` to `end_offset` (exclusive), with the leader epochs of its records.

    `gaps` are the offsets before it that no segment contains, although segments contain earlier ones.
    """

    start_offset: Offset
    end_offset: Offset
    leader_epochs: tuple[EpochEntry, ...]
    gaps: tuple[OffsetRange, ...] = ()


def log_position(segment: RemoteLogSegmentMetadata) -> tuple[LeaderEpoch, Offset]:
    """Return the sort key of segments: the newest has the highest last epoch, then the highest end offset."""
    return segment.segment_leader_epochs[-1].epoch, segment.end_offset


def recovered_log(
    segments: Iterable[RemoteLogSegmentMetadata],
    newest: RemoteLogSegmentMetadata,
    checkpoint: Sequence[EpochEntry],
) -> RecoveredLog:
    """Return the log that ends with `newest`; `checkpoint` has the leader epochs stored with it."""
    end_offset = newest.end_offset + 1
    epochs = LeaderEpochCache.of(checkpoint or newest.segment_leader_epochs)
    epochs.truncate_from_end(end_offset)
    lineage = epochs.entries
    ranges = _joined_ranges(
        each
        for segment in segments
        for each in ranges_in_log(segment, lineage)
        if each.start_offset < end_offset
    )
    # `newest` itself is in the lineage, so that there is a last range, which ends at the end.
    start_offset = ranges[-1].start_offset
    gaps = tuple(OffsetRange(before.end_offset, after.start_offset) for before, after in pairwise(ranges))
    epochs.truncate_from_start(start_offset)
    return RecoveredLog(start_offset, end_offset, tuple(epochs.entries), gaps)


def ranges_in_log(segment: RemoteLogSegmentMetadata, lineage: Sequence[EpochEntry]) -> Iterator[OffsetRange]:
    """Return the offsets that `segment` and a log with `lineage` have in the same leader epochs."""
    spans = {epoch: (start, end) for epoch, start, end in epoch_spans(lineage, ENDLESS)}
    for epoch, start, end in epoch_spans(segment.segment_leader_epochs, segment.end_offset + 1):
        if epoch in spans:
            common = OffsetRange(max(start, spans[epoch][0]), min(end, spans[epoch][1]))
            if common.start_offset < common.end_offset:
                yield common


def _joined_ranges(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return `ranges` in order, with those that touch or overlap joined."""
    joined: list[OffsetRange] = []
    for each in sorted(ranges):
        if joined and each.start_offset <= joined[-1].end_offset:
            joined[-1] = OffsetRange(joined[-1].start_offset, max(joined[-1].end_offset, each.end_offset))
        else:
            joined.append(each)
    return joined
