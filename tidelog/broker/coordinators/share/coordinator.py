"""The share coordinator of one partition of `__share_group_state`: all of its commands in one place.

A state is a snapshot and the updates after it. A snapshot follows after a number of updates, and when a share
partition has had no snapshot for a while: only then can the records below the oldest snapshot be deleted.

Two epochs fence writers. The state epoch belongs to the share group; it increases when the group initializes
the share partition again. The leader epoch is that of the partition's leader; a read by a new leader
increases it. A command with a lower epoch is rejected, and -1 stands for a caller without an epoch.

I/O: none. Errors: commands raise KafkaError.
Source: KIP-932, ShareCoordinatorShard of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.share.config import ShareCoordinatorConfig
from tidelog.broker.coordinators.share.persister import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_DELIVERY_COMPLETE_COUNT,
    InitialState,
    SharePartitionKey,
    StateRead,
    StateResult,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.broker.coordinators.share.records import ShareStateRecord
from tidelog.broker.coordinators.share.state import UNCHANGED, ShareState, ShareUpdate, first_kept_offset
from tidelog.broker.coordinators.share.state_batches import add_batches, combine_batches
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

NO_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0
STATES_PER_STEP: Final = 500
"""The number of states that are checked, and written, in one iteration of the event loop."""

PartitionCount = Callable[[UUID], int]
"""Returns the number of partitions of a topic; 0 if the topic does not exist."""


@dataclass(slots=True)
class _Entry:
    """The state of a share partition with what replay derives from its records.

    The highest epochs ever replayed fence; a snapshot of a new initialization has a lower leader epoch.
    `snapshot_offset` is the offset of the latest snapshot.
    """

    state: ShareState
    highest_leader_epoch: int
    highest_state_epoch: int
    updates: int = 0
    snapshot_offset: Offset = 0


class ShareCoordinator:
    """Owns the states of the share partitions of one partition of `__share_group_state`."""

    def __init__(self, config: ShareCoordinatorConfig, partition_count: PartitionCount) -> None:
        self._config = config
        self._partition_count = partition_count
        self._entries: dict[SharePartitionKey, _Entry] = {}
        self._committed_offset: Offset = 0
        self._replacement_offset: Offset | None = None
        """The offset of the last record that replaced or deleted a whole state."""

    # Replay

    def replay(self, record: ShareStateRecord, record_offset: Offset) -> None:
        """Apply one record of the log."""
        share_partition, change = record
        if change is None:
            self._entries.pop(share_partition, None)
            self._replacement_offset = record_offset
        elif isinstance(change, ShareState):
            self._replay_snapshot(share_partition, change, record_offset)
        else:
            self._replay_update(share_partition, change, record_offset)

    def _replay_snapshot(
        self, share_partition: SharePartitionKey, state: ShareState, record_offset: Offset
    ) -> None:
        entry = self._entries.get(share_partition)
        if entry is None:
            entry = _Entry(state, state.leader_epoch, state.state_epoch)
            self._entries[share_partition] = entry
        entry.state = state
        entry.highest_leader_epoch = max(entry.highest_leader_epoch, state.leader_epoch)
        entry.highest_state_epoch = max(entry.highest_state_epoch, state.state_epoch)
        entry.snapshot_offset = self._replacement_offset = record_offset
        if entry.updates >= self._config.share_coordinator_snapshot_update_records_per_snapshot:
            entry.updates = 0

    def _replay_update(
        self, share_partition: SharePartitionKey, update: ShareUpdate, record_offset: Offset
    ) -> None:
        """Apply an update. One without a state is all that is left of a state that is deleted later."""
        entry = self._entries.get(share_partition)
        if entry is None:
            state = ShareState(
                snapshot_epoch=update.snapshot_epoch,
                state_epoch=_FIRST_EPOCH,
                leader_epoch=update.leader_epoch,
                start_offset=update.start_offset,
                delivery_complete_count=update.delivery_complete_count,
                create_wall_ms=0,
                write_wall_ms=0,
                batches=update.batches,
            )
            entry = _Entry(state, update.leader_epoch, _FIRST_EPOCH, snapshot_offset=record_offset)
            self._entries[share_partition] = entry
        else:
            entry.state = entry.state.updated(update)
            entry.highest_leader_epoch = max(entry.highest_leader_epoch, update.leader_epoch)
        entry.updates += 1

    def advance(self, high_watermark: Offset) -> None:
        """Note that records below `high_watermark` are committed."""
        self._committed_offset = high_watermark

    def finish_loading(self, now: Moment) -> Sequence[Writes[Any]]:
        """Return no writes: nothing continues after a load."""
        return ()

    def next_deadline_ms(self) -> int | None:
        """Return None: the service starts the periodic work of all partitions."""
        return None

    def tick(self, now: Moment) -> Sequence[Writes[Any]]:
        """Return no writes: there are no deadlines."""
        return ()

    def resign(self) -> None:
        """Drop the state."""
        self._entries.clear()

    # Commands

    def initialize(self, initial: InitialState, now: Moment) -> Outcome[StateResult]:
        """Create a state, or replace it unless it has a higher state epoch."""
        share_partition = initial.share_partition
        self._check_index(share_partition)
        entry = self._entries.get(share_partition)
        if entry is not None:
            _check_state_epoch(entry, initial.state_epoch)
        self._check_topic(share_partition)
        is_uninitialized = initial.start_offset == UNINITIALIZED_START_OFFSET
        state = ShareState(
            snapshot_epoch=_FIRST_EPOCH if entry is None else entry.state.snapshot_epoch + 1,
            state_epoch=initial.state_epoch,
            leader_epoch=_FIRST_EPOCH,
            start_offset=initial.start_offset,
            delivery_complete_count=UNKNOWN_DELIVERY_COMPLETE_COUNT if is_uninitialized else 0,
            create_wall_ms=now.wall_ms,
            write_wall_ms=now.wall_ms,
        )
        return Outcome(StateResult(), Writes([ShareStateRecord(share_partition, state)]))

    def read(self, read: StateRead, now: Moment) -> Outcome[StoredState]:
        """Return a state; a higher leader epoch is written first and fences earlier leaders."""
        entry = self._initialized(read.share_partition, "Read")
        _check_leader_epoch(entry, read.leader_epoch)
        self._check_topic(read.share_partition)
        state = entry.state
        reply = StoredState(
            state_epoch=state.state_epoch, start_offset=state.start_offset, batches=state.batches
        )
        if read.leader_epoch in (NO_EPOCH, entry.highest_leader_epoch):
            return Outcome(reply)
        write = StateWrite(
            share_partition=read.share_partition,
            state_epoch=state.state_epoch,
            leader_epoch=read.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
        return Outcome(reply, Writes([self._record(entry, write, read.leader_epoch, now)]))

    def write(self, write: StateWrite, now: Moment) -> Outcome[StateResult]:
        """Change a state. The leader epoch only fences; a read changes it."""
        entry = self._initialized(write.share_partition, "Write")
        _check_leader_epoch(entry, write.leader_epoch)
        _check_state_epoch(entry, write.state_epoch)
        self._check_topic(write.share_partition)
        record = self._record(entry, write, entry.state.leader_epoch, now)
        return Outcome(StateResult(), Writes([record]))

    def delete(self, share_partition: SharePartitionKey) -> Outcome[StateResult]:
        """Delete a state, if there is one."""
        self._check_index(share_partition)
        self._check_topic(share_partition)
        if share_partition not in self._entries:
            return Outcome(StateResult())
        return Outcome(StateResult(), Writes([ShareStateRecord(share_partition, None)]))

    def read_summary(self, read: StateRead) -> StateSummary:
        """Return a state without its batches; one that does not exist is uninitialized."""
        share_partition = read.share_partition
        self._check_index(share_partition)
        self._check_topic(share_partition)
        entry = self._entries.get(share_partition)
        if entry is None:
            return StateSummary(start_offset=UNINITIALIZED_START_OFFSET)
        state = entry.state
        return StateSummary(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    def _record(self, entry: _Entry, write: StateWrite, leader_epoch: int, now: Moment) -> ShareStateRecord:
        """Return the record of a change: a snapshot if there have been enough updates, else an update."""
        state = entry.state
        if entry.updates < self._config.share_coordinator_snapshot_update_records_per_snapshot:
            update = ShareUpdate(
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.delivery_complete_count,
                batches=combine_batches(write.batches, first_kept_offset(write.start_offset)),
            )
            return ShareStateRecord(write.share_partition, update)
        start_offset = state.start_offset if write.start_offset == UNCHANGED else write.start_offset
        snapshot = ShareState(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=write.delivery_complete_count,
            create_wall_ms=now.wall_ms,
            write_wall_ms=now.wall_ms,
            batches=add_batches(state.batches, write.batches, first_kept_offset(start_offset)),
        )
        return ShareStateRecord(write.share_partition, snapshot)

    # Checks

    def _initialized(self, share_partition: SharePartitionKey, operation: str) -> _Entry:
        self._check_index(share_partition)
        entry = self._entries.get(share_partition)
        if entry is None:
            text = f"{operation} operation on uninitialized share partition not allowed."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return entry

    def _check_index(self, share_partition: SharePartitionKey) -> None:
        if share_partition.partition < 0:
            text = f"partition {share_partition.partition} is negative"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)

    def _check_topic(self, share_partition: SharePartitionKey) -> None:
        if share_partition.partition >= self._partition_count(share_partition.topic_id):
            text = f"there is no topic or partition of {share_partition.coordinator_key!r}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)

    # Periodic work

    def snapshots_of_cold_partitions(self, now: Moment) -> Iterator[Writes[ShareStateRecord]]:
        """Yield snapshots of all states whose last snapshot is old, unless all are snapshots of this kind.

        Other commands may run after each write.
        """
        if all(entry.state.is_rewritten for entry in self._entries.values()):
            return
        interval_ms = self._config.share_coordinator_cold_partition_snapshot_interval_ms
        for keys in self._keys_in_parts():
            records = []
            for share_partition in keys:
                entry = self._entries.get(share_partition)
                if entry is not None and now.wall_ms - entry.state.write_wall_ms >= interval_ms:
                    epoch = entry.state.snapshot_epoch + 1
                    snapshot = replace(entry.state, snapshot_epoch=epoch, write_wall_ms=now.wall_ms)
                    records.append(ShareStateRecord(share_partition, snapshot))
            yield Writes(records, may_split=True)

    def deletions_of_topics(self, topic_ids: Collection[UUID]) -> Iterator[Writes[ShareStateRecord]]:
        """Yield the records that delete the states of deleted topics.

        Other commands may run after each write.
        """
        for keys in self._keys_in_parts():
            records = [
                ShareStateRecord(share_partition, None)
                for share_partition in keys
                if share_partition.topic_id in topic_ids and share_partition in self._entries
            ]
            yield Writes(records, may_split=True)

    def _keys_in_parts(self) -> Iterator[Sequence[SharePartitionKey]]:
        """Yield the share partitions that exist now, `STATES_PER_STEP` at a time."""
        keys = list(self._entries)
        for start in range(0, len(keys), STATES_PER_STEP):
            yield keys[start : start + STATES_PER_STEP]

    def lowest_needed_offset(self) -> Offset | None:
        """Return the offset below which no record is needed to load the states; None if that is unknown.

        It is known while all snapshots and deletions are committed. If one is lost with the leadership, the
        state before it is needed.
        """
        replacement = self._replacement_offset
        if replacement is None or replacement >= self._committed_offset:
            return None
        return min((entry.snapshot_offset for entry in self._entries.values()), default=replacement)

    def state_count(self) -> int:
        """Return the number of share partitions, for metrics."""
        return len(self._entries)


def _check_leader_epoch(entry: _Entry, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and leader_epoch < entry.highest_leader_epoch:
        text = f"leader epoch {leader_epoch} is lower than {entry.highest_leader_epoch}"
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, text)


def _check_state_epoch(entry: _Entry, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and state_epoch < entry.highest_state_epoch:
        text = f"state epoch {state_epoch} is lower than {entry.highest_state_epoch}"
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, text)
