"""The remote segments of one partition, as replayed from its records.

    query                        STARTED   FINISHED   DELETE_STARTED   DELETE_FINISHED
    segment, next_with_txn_index    -         yes           -                -
    segments                       yes        yes          yes               -
    highest_offset                  -         yes          yes              yes

Records may be repeated, and may be about segments that were deleted long ago: records without effect are
dropped.

Source: RemoteLogMetadataCache of Apache Kafka 4.3; KIP-405, KAFKA-16890, KAFKA-17062.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final

from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.metadata.epoch_segments import EpochSegments
from tidelog.remote.metadata.excerpt import read_excerpt
from tidelog.remote.metadata.segment_table import FrozenSegments, PlainSegment, SegmentTable
from tidelog.remote.ports.metadata_manager import EpochRanges, SegmentExcerpt
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)

STARTED: Final = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING: Final = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED: Final = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class Outcome(Enum):
    """The effect of a record."""

    APPLIED = auto()
    REPEATED = auto()
    """The segment was in that state already."""
    UNKNOWN_SEGMENT = auto()
    ILLEGAL_MOVE = auto()
    """The new state may not follow the current one."""


class RemoteLogMetadataCache:
    """One partition's segments; queries use bisection over start offsets.

    Invariant: a segment with an epoch is in that epoch's `EpochSegments` from its start to its deletion.
    """

    __slots__ = ("_epochs", "_table", "changes")

    def __init__(self, partition: TopicIdPartition) -> None:
        self._table = SegmentTable(partition)
        self._epochs: dict[LeaderEpoch, EpochSegments] = {}
        self.changes = 0
        """The number of records that have changed something."""

    def __len__(self) -> int:
        """Return the number of segments in any state."""
        return len(self._table)

    # --- records --------------------------------------------------------------------------

    def add(self, metadata: RemoteLogSegmentMetadata) -> Outcome:
        """Add a copy that has started; a segment that exists already is not changed."""
        if metadata.state is not STARTED:
            return Outcome.ILLEGAL_MOVE
        row = self._table.find(metadata.remote_log_segment_id.id)
        if row is not None:
            return Outcome.REPEATED if self._table.state(row) is STARTED else Outcome.ILLEGAL_MOVE
        self._add(metadata)
        self.changes += 1
        return Outcome.APPLIED

    def update(self, update: RemoteLogSegmentMetadataUpdate) -> Outcome:
        """Apply the next state of a segment."""
        row = self._table.find(update.remote_log_segment_id.id)
        outcome = self._outcome_of(update, row)
        if row is None or outcome is Outcome.ILLEGAL_MOVE:
            return outcome
        self._table.update(row, update)
        self.changes += 1
        if outcome is Outcome.APPLIED:
            self._change_state(row, update.state)
        return outcome

    def outcome_of(self, update: RemoteLogSegmentMetadataUpdate) -> Outcome:
        """Return the effect that `update` would have."""
        return self._outcome_of(update, self._table.find(update.remote_log_segment_id.id))

    def reserve(self, count: int) -> None:
        """Prepare an empty cache for `count` segments of a snapshot."""
        self._table.reserve(count)

    def restore(self, segment: RemoteLogSegmentMetadata | PlainSegment) -> None:
        """Add a segment of a snapshot, in any state; its id must be new."""
        if isinstance(segment, PlainSegment):
            self._restore_plain(segment)
            return
        row = self._add(segment)
        if segment.state is FINISHED:
            self._change_state(row, FINISHED)

    def _restore_plain(self, segment: PlainSegment) -> None:
        row = self._table.append_plain(segment)
        epoch = self._epoch(segment.leader_epoch)
        if segment.state == FINISHED:
            epoch.restore_finished(row, segment.start_offset, segment.end_offset, segment.is_txn_index_empty)
        else:
            epoch.add_started(row)

    def restore_highest_offsets(self, highest_offsets: Iterable[tuple[LeaderEpoch, Offset]]) -> None:
        """Add the highest offsets of a snapshot."""
        for epoch, offset in highest_offsets:
            self._epoch(epoch).advance_highest_offset(offset)

    def frozen(self) -> FrozenSegments:
        """Return a copy of the current segments, so that another thread can write a snapshot."""
        return self._table.frozen()

    # --- queries --------------------------------------------------------------------------

    def segment(self, epoch: LeaderEpoch, offset: Offset) -> RemoteLogSegmentMetadata | None:
        """Return the readable segment that contains `offset` of `epoch`, None if there is none."""
        state = self._epochs.get(epoch)
        row = None if state is None else state.serving(offset)
        return None if row is None else self._table.get(row)

    def next_with_txn_index(self, epoch: LeaderEpoch, offset: Offset) -> RemoteLogSegmentMetadata | None:
        """Return the first segment of `epoch` that serves `offset` or a later one and may have aborts.

        None if there is none.
        """
        state = self._epochs.get(epoch)
        row = None if state is None else state.serving_with_txn_index(offset)
        return None if row is None else self._table.get(row)

    def highest_offset(self, epoch: LeaderEpoch) -> Offset | None:
        """Return the last offset of `epoch` that was ever copied; deletions do not lower it."""
        state = self._epochs.get(epoch)
        return None if state is None else state.highest_offset

    def highest_offsets(self) -> list[tuple[LeaderEpoch, Offset]]:
        """Return `highest_offset` of every epoch that has one, by epoch."""
        return sorted(
            (epoch, state.highest_offset)
            for epoch, state in self._epochs.items()
            if state.highest_offset is not None
        )

    def segments(self, epoch: LeaderEpoch | None = None) -> Iterator[RemoteLogSegmentMetadata]:
        """Return the segments of `epoch` by start offset; None means all epochs.

        These are the segments that exist now, each with its state at the time when it is yielded.
        """
        if epoch is None:
            return self._table.segments(sorted(self._table.rows(), key=self._table.start_offset))
        state = self._epochs.get(epoch)
        # The epoch orders them by the start of their records of the epoch, which may be another order.
        rows = () if state is None else sorted(state.rows(), key=self._table.start_offset)
        return self._table.segments(rows)

    def excerpt(self, ranges: EpochRanges) -> SegmentExcerpt | None:
        """Return the segments that decide about the expiration of a log; None if they are too many."""
        return read_excerpt(self._table, self._epochs, ranges)

    def get(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """Return the segment `segment_id` in any state, None if it does not exist."""
        row = self._table.find(segment_id.id)
        return None if row is None else self._table.get(row)

    # --- private --------------------------------------------------------------------------

    def _outcome_of(self, update: RemoteLogSegmentMetadataUpdate, row: int | None) -> Outcome:
        if row is None:
            return Outcome.UNKNOWN_SEGMENT
        state = self._table.state(row)
        if update.state is STARTED or not state.may_become(update.state):
            return Outcome.ILLEGAL_MOVE
        return Outcome.REPEATED if state is update.state else Outcome.APPLIED

    def _add(self, metadata: RemoteLogSegmentMetadata) -> int:
        row = self._table.add(metadata)
        for entry in metadata.segment_leader_epochs:
            self._epoch(entry.epoch).add_started(row)
        return row

    def _change_state(self, row: int, after: RemoteLogSegmentState) -> None:
        if after is FINISHED:
            self._table.set_finish_order(row)
        for number in self._table.epochs(row):
            epoch = self._epochs[number]
            if after is FINISHED:
                epoch.add_finished(row)
            elif after is DELETING:
                epoch.hide(row)
            else:
                epoch.remove(row)
        if after is DELETED:
            self._table.remove(row)

    def _epoch(self, epoch: LeaderEpoch) -> EpochSegments:
        state = self._epochs.get(epoch)
        if state is None:
            state = self._epochs[epoch] = EpochSegments(self._table, epoch)
        return state
