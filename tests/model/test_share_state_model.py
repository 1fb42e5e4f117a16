"""The share coordinator compared with a naive one: random commands, epochs, snapshots, deletions and reloads.

The naive coordinator has for each share partition a dictionary of the states of single records. After every
reload from what is left of the log, all states must be the same. The leader epochs of a state that was
initialized again may be forgotten by a load, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.configs import share_coordinator_config
from tidelog.broker.coordinators.share.coordinator import ShareCoordinator
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    ShareStateBatch,
    StateRead,
    StateWrite,
)
from tidelog.broker.coordinators.share.records import ShareStateRecord, decode_record, encode_record
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.protocol.errors import ErrorCode, KafkaError

TOPIC = UUID(int=7)
PARTITIONS = [SharePartitionKey(group, TOPIC, index) for group in "gh" for index in range(2)]
COLD_MS = 1_000
EPOCHS = st.integers(-1, 4)
OFFSETS = st.integers(0, 25)
BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: ShareStateBatch(first, first + length, state, count),
        OFFSETS,
        st.integers(0, 6),
        st.sampled_from((0, 2, 4)),
        st.integers(1, 3),
    ),
    max_size=4,
)


@dataclass
class NaiveState:
    """The state of one share partition, record by record."""

    state_epoch: int
    start_offset: int
    count: int
    leader_epoch: int = 0
    records: dict[int, tuple[int, int]] = field(default_factory=dict)

    def write(self, write: StateWrite) -> None:
        if write.start_offset != -1:
            self.start_offset = write.start_offset
        self.count = write.delivery_complete_count
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                new = batch.delivery_count, batch.delivery_state
                self.records[offset] = max(self.records.get(offset, new), new)
        self.records = {
            offset: state for offset, state in self.records.items() if offset >= self.start_offset
        }


class ShareStates(RuleBasedStateMachine):
    """Performs each command in both coordinators."""

    def __init__(self) -> None:
        super().__init__()
        self.config = share_coordinator_config(
            share_coordinator_snapshot_update_records_per_snapshot=3,
            share_coordinator_cold_partition_snapshot_interval_ms=COLD_MS,
        )
        self.now = Moment(0, 0)
        self.log: dict[int, tuple[bytes, bytes | None]] = {}
        self.next_offset = 0
        self.states: dict[SharePartitionKey, NaiveState] = {}
        self.fences: dict[SharePartitionKey, tuple[int, int]] = {}
        """The highest leader epoch and state epoch of each state."""
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> ShareCoordinator:
        return ShareCoordinator(self.config, lambda topic_id: 2 if topic_id == TOPIC else 0)

    def append(self, writes: Writes[ShareStateRecord]) -> None:
        for record in writes.records:
            self.coordinator.replay(record, self.next_offset)
            self.log[self.next_offset] = encode_record(record)
            self.next_offset += 1
        self.coordinator.advance(self.next_offset)

    def run(self, command: Any, *arguments: Any) -> tuple[ErrorCode, Any]:
        try:
            outcome: Outcome[Any] = command(*arguments)
        except KafkaError as error:
            return error.code, None
        self.append(outcome.writes)
        return ErrorCode.NONE, outcome.reply

    def expected_error(
        self, partition: SharePartitionKey, leader_epoch: int = -1, state_epoch: int = -1
    ) -> ErrorCode:
        if partition not in self.states:
            return ErrorCode.INVALID_REQUEST
        highest_leader, highest_state = self.fences[partition]
        if leader_epoch not in (-1, *range(highest_leader, 5)):
            return ErrorCode.FENCED_LEADER_EPOCH
        if state_epoch not in (-1, *range(highest_state, 5)):
            return ErrorCode.FENCED_STATE_EPOCH
        return ErrorCode.NONE

    @rule(partition=st.sampled_from(PARTITIONS), state_epoch=st.integers(0, 4), start=st.none() | OFFSETS)
    def initialize(self, partition: SharePartitionKey, state_epoch: int, start: int | None) -> None:
        offset = -1 if start is None else start
        initial = InitialState(share_partition=partition, state_epoch=state_epoch, start_offset=offset)
        expected = self.expected_error(partition, state_epoch=state_epoch)
        if expected is ErrorCode.INVALID_REQUEST:
            expected = ErrorCode.NONE
        assert self.run(self.coordinator.initialize, initial, self.now)[0] is expected
        if expected is ErrorCode.NONE:
            self.states[partition] = NaiveState(state_epoch, offset, -1 if start is None else 0)
            highest_leader = self.fences.get(partition, (0, 0))[0]
            self.fences[partition] = highest_leader, state_epoch

    @rule(partition=st.sampled_from(PARTITIONS), leader_epoch=EPOCHS)
    def read(self, partition: SharePartitionKey, leader_epoch: int) -> None:
        read = StateRead(share_partition=partition, leader_epoch=leader_epoch)
        expected = self.expected_error(partition, leader_epoch)
        error, stored = self.run(self.coordinator.read, read, self.now)
        assert error is expected
        if stored is None:
            return
        state = self.states[partition]
        assert (stored.state_epoch, stored.start_offset) == (state.state_epoch, state.start_offset)
        assert all(lower.last_offset < upper.first_offset for lower, upper in pairwise(stored.batches))
        assert state.records == {
            offset: (batch.delivery_count, batch.delivery_state)
            for batch in stored.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        highest_leader, highest_state = self.fences[partition]
        if leader_epoch > highest_leader:
            state.leader_epoch = leader_epoch
            self.fences[partition] = leader_epoch, highest_state

    @rule(
        partition=st.sampled_from(PARTITIONS),
        leader_epoch=EPOCHS,
        state_epoch=EPOCHS,
        advance=st.none() | st.integers(0, 8),
        count=st.integers(-1, 9),
        batches=BATCHES,
    )
    def write(
        self,
        partition: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        advance: int | None,
        count: int,
        batches: list[ShareStateBatch],
    ) -> None:
        state = self.states.get(partition)
        start_offset = -1 if advance is None or state is None else max(state.start_offset, 0) + advance
        write = StateWrite(
            share_partition=partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            batches=tuple(batches),
        )
        expected = self.expected_error(partition, leader_epoch, state_epoch)
        assert self.run(self.coordinator.write, write, self.now)[0] is expected
        if expected is ErrorCode.NONE:
            self.states[partition].write(write)

    @rule(partition=st.sampled_from(PARTITIONS))
    def delete(self, partition: SharePartitionKey) -> None:
        assert self.run(self.coordinator.delete, partition)[0] is ErrorCode.NONE
        self.states.pop(partition, None)
        self.fences.pop(partition, None)

    @rule(elapsed_ms=st.integers(1, 2 * COLD_MS))
    def snapshot_cold_partitions(self, elapsed_ms: int) -> None:
        self.now = Moment(self.now.wall_ms + elapsed_ms, 0)
        for writes in self.coordinator.snapshots_of_cold_partitions(self.now):
            self.append(writes)

    @precondition(lambda self: self.next_offset > 0)
    @rule()
    def delete_records_and_load(self) -> None:
        lowest = self.coordinator.lowest_needed_offset()
        if lowest is not None:
            self.log = {offset: record for offset, record in self.log.items() if offset >= lowest}
        self.coordinator = self.new_coordinator()
        for offset, (key, value) in self.log.items():
            record = decode_record(key, value)
            assert record is not None
            self.coordinator.replay(record, offset)
        self.coordinator.advance(self.next_offset)
        # What a load does not restore, as the records do not have it.
        for partition, (highest_leader, highest_state) in self.fences.items():
            restored = self.coordinator._entries[partition].highest_leader_epoch
            assert self.states[partition].leader_epoch <= restored <= highest_leader
            self.fences[partition] = restored, highest_state

    @invariant()
    def summaries_are_equal(self) -> None:
        assert self.coordinator.state_count() == len(self.states)
        for partition, state in self.states.items():
            summary = self.coordinator.read_summary(StateRead(share_partition=partition, leader_epoch=-1))
            assert (summary.state_epoch, summary.start_offset) == (state.state_epoch, state.start_offset)
            assert summary.leader_epoch == state.leader_epoch
            assert summary.delivery_complete_count == state.count


TestShareStates = ShareStates.TestCase
TestShareStates.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
