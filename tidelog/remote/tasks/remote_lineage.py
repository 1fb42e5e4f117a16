"""Which remote segments belong to a log: those that were written in the leader epochs of the log.

After an unclean election, remote storage may contain segments of records that the log never had. They have an
epoch that the log does not have, or an epoch that ends later in the segment than in the log.

    the log         (5, 10) (7, 15) (9, 100)            epoch, start offset
    5-50            (5, 10) (7, 15)            belongs to it
    60-120          (7, 60) (8, 90)            does not: the log has no epoch 8
    60-120          (7, 60)                    does not: in the log, epoch 7 ends with 99

Source: RemoteLogManager.isRemoteSegmentWithinLeaderEpochs and findHighestRemoteOffset of Apache Kafka 4.3;
the scenarios "follower to leader" of KIP-405.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache, entries_with_records

NOTHING_REMOTE: Final = -1

_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class EpochLineage:
    """The leader epochs in which the records of a log were written, with their start offsets.

    Epochs without records are omitted: they start at the same offset as the next epoch.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochEntry]) -> None:
        with_records = entries_with_records(list(entries))
        self._epochs = [entry.epoch for entry in with_records]
        self._starts = [entry.start_offset for entry in with_records]

    @property
    def epochs(self) -> Sequence[LeaderEpoch]:
        """The epochs in ascending order."""
        return self._epochs

    @property
    def first_epoch(self) -> LeaderEpoch | None:
        """The oldest epoch, None if there is none."""
        return self._epochs[0] if self._epochs else None

    @property
    def first_offset(self) -> Offset | None:
        """The start offset of the oldest epoch; the epochs of all records from it are known."""
        return self._starts[0] if self._starts else None

    def range_of(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[Offset, Offset] | None:
        """Return the first offset of `epoch` and the offset after its last; None for an unknown epoch.

        The oldest epoch counts from offset 0: the log start may be within it.
        """
        index = self._index_of(epoch)
        if index is None:
            return None
        starts = self._starts
        end_offset = starts[index + 1] if index + 1 < len(starts) else log_end_offset
        return (starts[index] if index else 0), min(end_offset, log_end_offset)

    def has_any_epoch_of(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether the log has one of the segment's epochs."""
        return any(self._index_of(epoch) is not None for epoch, _ in segment.segment_leader_epochs)

    def contains(self, segment: RemoteLogSegmentMetadata, log_end_offset: Offset) -> bool:
        """Return whether the log has, or had, the segment's records at the same offsets.

        Of a segment that begins before the log's first epoch, only the rest counts: the log start may be
        within it.
        """
        parts = entries_with_records(segment.segment_leader_epochs)
        last_epoch = parts[-1][0]
        if not self._epochs or not self._epochs[0] <= last_epoch <= self._epochs[-1]:
            return False
        first = next(index for index, (epoch, _) in enumerate(parts) if epoch >= self._epochs[0])
        for index in range(first, len(parts)):
            epoch, start = parts[index]
            log_index = self._index_of(epoch)
            if log_index is None:
                return False
            if index == first and log_index > 0 and start < self._starts[log_index]:
                return False
            next_index = log_index + 1
            if epoch != last_epoch:
                if (self._epochs[next_index], self._starts[next_index]) != parts[index + 1]:
                    return False
            elif next_index < len(self._starts) and segment.end_offset >= self._starts[next_index]:
                return False
        return segment.end_offset < log_end_offset

    def _index_of(self, epoch: LeaderEpoch) -> int | None:
        index = bisect_left(self._epochs, epoch)
        return index if index < len(self._epochs) and self._epochs[index] == epoch else None

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        """Return the epoch in which `offset` was written, None if `offset` is below the first epoch."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else None


def highest_remote_offset(
    epochs: LeaderEpochCache,
    log_end_offset: Offset,
    highest_offset_for_epoch: Callable[[LeaderEpoch], Offset | None],
) -> Offset:
    """Return the last offset of the log in remote storage; NOTHING_REMOTE if there is none.

    The search starts at the newest epoch and ends at the first epoch with a copied segment. Records of that
    epoch in remote storage after its end in this log were never part of this log.
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
    """Return the first offset that can be read, at least `log_start_offset`.

    A former leader advances the log start and deletes segments; the next leader may not know that. If the
    epochs of the log are not known from its start (a replica that lost them), the result is
    `log_start_offset`: such a replica must not remove segments that it does not recognize (KAFKA-15414).
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
            and lineage.has_any_epoch_of(segment)
        ):
            first = segment.start_offset
            if first <= log_start_offset:
                return log_start_offset  # skip the rest, which may be very long
    return first
