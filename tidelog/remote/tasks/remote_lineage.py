"""Which remote segments are part of a log: those that were written in the leader epochs that the log has.

After an unclean election remote storage may hold segments of records that the log never had. They name an
epoch that the log does not know, or one that goes on in the segment where it has ended in the log.

    the log         (5, 10) (7, 15) (9, 100)            epoch, start offset
    5-50            (5, 10) (7, 15)            part of it
    60-120          (7, 60) (8, 90)            not: the log has no epoch 8
    60-120          (7, 60)                    not: in the log, epoch 7 ends with 99

Source: RemoteLogManager.isRemoteSegmentWithinLeaderEpochs and findHighestRemoteOffset of Apache Kafka 4.3;
the scenarios "follower to leader" of KIP-405.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.storage.leader_epoch import LeaderEpochCache

NOTHING_REMOTE: Final = -1

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class EpochLineage:
    """The leader epochs in which the records of a log were written, and where each starts.

    Epochs without records are left out: another one starts where they do.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[LeaderEpoch, Offset]]) -> None:
        kept = _with_records(list(entries))
        self._epochs = [epoch for epoch, _ in kept]
        self._starts = [start for _, start in kept]

    @property
    def epochs(self) -> Sequence[LeaderEpoch]:
        """The epochs, rising."""
        return self._epochs

    @property
    def first_epoch(self) -> LeaderEpoch | None:
        """The oldest epoch, None when there is none."""
        return self._epochs[0] if self._epochs else None

    @property
    def first_offset(self) -> Offset | None:
        """Where the oldest epoch starts: from here on it is known who wrote what."""
        return self._starts[0] if self._starts else None

    def knows_any_of(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether the log has one of the segment's epochs."""
        return any(self._index_of(epoch) is not None for epoch, _ in segment.segment_leader_epochs)

    def holds(self, segment: RemoteLogSegmentMetadata, log_end_offset: Offset) -> bool:
        """Whether what the segment holds is what the log has, or had, at these offsets.

        Of a segment that begins before the log's first epoch only the rest counts: the log start may have
        moved into it.
        """
        parts = _with_records(segment.segment_leader_epochs)
        last_epoch = parts[-1][0]
        if not self._epochs or not self._epochs[0] <= last_epoch <= self._epochs[-1]:
            return False
        first = next(index for index, (epoch, _) in enumerate(parts) if epoch >= self._epochs[0])
        for index in range(first, len(parts)):
            epoch, start = parts[index]
            here = self._index_of(epoch)
            if here is None:
                return False
            if index == first and here > 0 and start < self._starts[here]:
                return False
            following = here + 1
            if epoch != last_epoch:
                if (self._epochs[following], self._starts[following]) != tuple(parts[index + 1]):
                    return False
            elif following < len(self._starts) and segment.end_offset >= self._starts[following]:
                return False
        return segment.end_offset < log_end_offset

    def _index_of(self, epoch: LeaderEpoch) -> int | None:
        index = bisect_left(self._epochs, epoch)
        return index if index < len(self._epochs) and self._epochs[index] == epoch else None

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        """The epoch in which `offset` was written, None below the first."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else None


def _with_records(entries: Sequence[tuple[LeaderEpoch, Offset]]) -> list[tuple[LeaderEpoch, Offset]]:
    return [
        entry
        for index, entry in enumerate(entries)
        if index + 1 == len(entries) or entries[index + 1][1] != entry[1]
    ]


def highest_remote_offset(
    epochs: LeaderEpochCache,
    log_end_offset: Offset,
    highest_offset_for_epoch: Callable[[LeaderEpoch], Offset | None],
) -> Offset:
    """The last offset of the log that is in remote storage; NOTHING_REMOTE when none is.

    From the newest epoch down to the first of which something was copied. What remote storage has of that
    epoch beyond its end in this log was never part of this log.
    """
    epoch = epochs.latest_epoch
    while epoch is not None:
        highest = highest_offset_for_epoch(epoch)
        if highest is not None:
            end_offset = epochs.end_offset_for(epoch, log_end_offset).end_offset
            return min(highest, end_offset - 1)
        epoch = epochs.previous_epoch(epoch)
    return NOTHING_REMOTE


def first_readable_offset(
    lineage: EpochLineage,
    segments: Iterable[RemoteLogSegmentMetadata],
    log_start_offset: Offset,
    local_log_start_offset: Offset,
) -> Offset:
    """Where the log has to start when nothing below is anywhere any more; at least `log_start_offset`.

    A former leader moves the log start and deletes segments; whoever leads next may not have heard of it.
    Of a log whose epochs are not known from its start on (a replica that lost them) nothing is concluded:
    segments that it does not recognize are not its to give up (KAFKA-15414).
    """
    known_from = lineage.first_offset
    if known_from is None or known_from > log_start_offset or local_log_start_offset <= log_start_offset:
        return log_start_offset
    first = local_log_start_offset
    for segment in segments:
        if (
            segment.start_offset < first
            and segment.state is _FINISHED
            and segment.end_offset >= log_start_offset
            and lineage.knows_any_of(segment)
        ):
            first = segment.start_offset
            if first <= log_start_offset:
                return log_start_offset  # there may be very many behind it
    return first
