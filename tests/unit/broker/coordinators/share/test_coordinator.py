"""The commands of the share coordinator: epochs, snapshots, deletions, the offset that a load needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from tests.support.configs import share_coordinator_config
from tidelog.broker.coordinators.share import coordinator as coordinator_module
from tidelog.broker.coordinators.share.coordinator import ShareCoordinator
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    ShareStateBatch,
    StateRead,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.broker.coordinators.share.records import ShareStateRecord
from tidelog.broker.coordinators.share.state import ShareState, ShareUpdate
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.protocol.errors import ErrorCode, KafkaError

TOPIC = UUID(int=7)
P0, P1 = SharePartitionKey("g", TOPIC, 0), SharePartitionKey("g", TOPIC, 1)
ACKNOWLEDGED = ShareStateBatch(10, 19, 2, 1)
COLD_MS = 300_000


class Harness:
    """A coordinator whose records are appended, replayed and committed at once."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.config = share_coordinator_config(
            share_coordinator_snapshot_update_records_per_snapshot=updates_per_snapshot,
            share_coordinator_cold_partition_snapshot_interval_ms=COLD_MS,
        )
        self.now = Moment(1_000, 0)
        self.records: list[ShareStateRecord] = []
        self.coordinator = ShareCoordinator(self.config, lambda topic_id: 2 if topic_id == TOPIC else 0)

    def append(self, writes: Writes[Any]) -> None:
        for record in writes.records:
            self.coordinator.replay(record, len(self.records))
            self.records.append(record)
        self.coordinator.advance(len(self.records))

    def append_all(self, parts: Iterator[Writes[Any]]) -> list[int]:
        """Append writes; return how many records each has."""
        sizes = []
        for writes in parts:
            self.append(writes)
            sizes.append(len(writes.records))
        return sizes

    def run(self, outcome: Outcome[Any]) -> Any:
        self.append(outcome.writes)
        return outcome.reply

    def initialize(self, partition: SharePartitionKey = P0, epoch: int = 1, start: int = -1) -> Any:
        state = InitialState(share_partition=partition, state_epoch=epoch, start_offset=start)
        return self.run(self.coordinator.initialize(state, self.now))

    def read(self, leader_epoch: int, partition: SharePartitionKey = P0) -> StoredState:
        read = StateRead(share_partition=partition, leader_epoch=leader_epoch)
        result: StoredState = self.run(self.coordinator.read(read, self.now))
        return result

    def write(self, *batches: ShareStateBatch, **fields: Any) -> Any:
        values: dict[str, Any] = {
            "state_epoch": 1,
            "leader_epoch": 5,
            "start_offset": -1,
        } | fields
        write = StateWrite(share_partition=P0, batches=batches, **values)
        return self.run(self.coordinator.write(write, self.now))

    def summary(self, partition: SharePartitionKey = P0) -> StateSummary:
        return self.coordinator.read_summary(StateRead(share_partition=partition, leader_epoch=-1))


@pytest.fixture
def harness() -> Harness:
    return Harness()


def expect_error(command: Any, *arguments: Any, **fields: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        command(*arguments, **fields)
    return error.value.code


def test_a_state_must_be_initialized_before_it_is_read_or_written(harness: Harness) -> None:
    assert expect_error(harness.read, 5) is ErrorCode.INVALID_REQUEST
    assert expect_error(harness.write) is ErrorCode.INVALID_REQUEST
    assert harness.summary() == StateSummary(start_offset=-1)
    harness.initialize()
    assert harness.read(5) == StoredState(state_epoch=1, start_offset=-1)


def test_a_partition_that_does_not_exist_has_no_state(harness: Harness) -> None:
    for partition in (SharePartitionKey("g", TOPIC, 2), SharePartitionKey("g", UUID(int=8), 0)):
        assert expect_error(harness.initialize, partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert expect_error(harness.initialize, SharePartitionKey("g", TOPIC, -1)) is ErrorCode.INVALID_REQUEST


def test_a_read_by_a_new_leader_fences_the_previous_leader(harness: Harness) -> None:
    harness.initialize()
    harness.read(5)
    assert isinstance(harness.records[-1].change, ShareUpdate)
    harness.read(6)
    assert expect_error(harness.write) is ErrorCode.FENCED_LEADER_EPOCH
    assert expect_error(harness.read, 5) is ErrorCode.FENCED_LEADER_EPOCH
    count = len(harness.records)
    harness.read(6)
    assert len(harness.records) == count, "the leader epoch is already known"


def test_a_new_initialization_fences_writers_of_the_previous_state_epoch(harness: Harness) -> None:
    harness.initialize()
    harness.read(5)
    harness.write(ACKNOWLEDGED)
    harness.initialize(epoch=2, start=30)
    assert expect_error(harness.write) is ErrorCode.FENCED_STATE_EPOCH
    assert expect_error(harness.initialize) is ErrorCode.FENCED_STATE_EPOCH
    assert harness.read(-1) == StoredState(state_epoch=2, start_offset=30)
    assert harness.summary().delivery_complete_count == 0
    # The leader epochs of the previous state still fence.
    assert expect_error(harness.read, 4) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_write_merges_its_batches_and_drops_those_below_the_start_offset(harness: Harness) -> None:
    harness.initialize()
    harness.write(ACKNOWLEDGED, start_offset=5, delivery_complete_count=10)
    harness.write(ShareStateBatch(20, 24, 2, 1), start_offset=15, delivery_complete_count=10)
    assert harness.read(-1).batches == (ShareStateBatch(15, 24, 2, 1),)
    assert harness.summary() == StateSummary(
        state_epoch=1, leader_epoch=0, start_offset=15, delivery_complete_count=10
    )


def test_a_snapshot_follows_after_the_configured_number_of_updates(harness: Harness) -> None:
    harness.initialize()
    for _ in range(8):
        harness.write(ACKNOWLEDGED)
    kinds = [type(record.change) for record in harness.records]
    assert kinds == [ShareState, *[ShareUpdate] * 3, ShareState, *[ShareUpdate] * 3, ShareState]
    snapshots = [record.change for record in harness.records if isinstance(record.change, ShareState)]
    assert [snapshot.snapshot_epoch for snapshot in snapshots] == [0, 1, 2]
    assert snapshots[-1].batches == (ACKNOWLEDGED,)


def test_a_deleted_state_can_be_deleted_again_and_initialized_with_any_epoch(harness: Harness) -> None:
    harness.initialize(epoch=7)
    harness.read(5)
    harness.run(harness.coordinator.delete(P0))
    harness.run(harness.coordinator.delete(P0))
    assert [record.change for record in harness.records].count(None) == 1
    assert harness.coordinator.state_count() == 0
    harness.initialize(epoch=1)
    assert harness.read(0).state_epoch == 1


def test_the_states_of_a_deleted_topic_are_deleted(harness: Harness) -> None:
    harness.initialize(P0)
    harness.initialize(P1)
    harness.append_all(harness.coordinator.deletions_of_topics({UUID(int=9)}))
    assert harness.coordinator.state_count() == 2
    harness.append_all(harness.coordinator.deletions_of_topics({TOPIC}))
    assert harness.coordinator.state_count() == 0


def test_many_states_are_snapshot_and_deleted_in_parts_between_which_states_may_change(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_module, "STATES_PER_STEP", 2)
    keys = [SharePartitionKey(f"g{number}", TOPIC, 0) for number in range(5)]
    for key in keys:
        harness.initialize(key)
    harness.now = Moment(1_000 + COLD_MS, 0)
    parts = harness.coordinator.snapshots_of_cold_partitions(harness.now)
    harness.append(next(parts))
    harness.run(harness.coordinator.delete(keys[2]))
    assert harness.append_all(parts) == [1, 1]
    assert harness.append_all(harness.coordinator.deletions_of_topics({TOPIC})) == [2, 2]
    assert harness.coordinator.state_count() == 0


def test_records_before_the_oldest_snapshot_are_not_needed(harness: Harness) -> None:
    assert harness.coordinator.lowest_needed_offset() is None
    harness.initialize(P0)
    harness.initialize(P1)
    for _ in range(4):
        harness.write()
    assert harness.coordinator.lowest_needed_offset() == 1, "the snapshot of the second partition"
    harness.run(harness.coordinator.delete(P1))
    assert harness.coordinator.lowest_needed_offset() == 5
    harness.run(harness.coordinator.delete(P0))
    assert harness.coordinator.lowest_needed_offset() == 7


def test_no_records_are_unneeded_while_a_snapshot_may_still_be_lost(harness: Harness) -> None:
    harness.initialize(P0)
    outcome = harness.coordinator.initialize(InitialState(share_partition=P0, state_epoch=2), harness.now)
    harness.coordinator.replay(outcome.writes.records[0], 1)
    assert harness.coordinator.lowest_needed_offset() is None
    harness.coordinator.advance(2)
    assert harness.coordinator.lowest_needed_offset() == 1


def test_a_partition_without_updates_gets_a_snapshot_of_the_same_state(harness: Harness) -> None:
    harness.initialize(P0)
    harness.write(ACKNOWLEDGED)
    before = harness.read(-1)
    harness.append_all(harness.coordinator.snapshots_of_cold_partitions(harness.now))
    assert len(harness.records) == 2, "the last snapshot is not old"
    harness.now = Moment(1_000 + COLD_MS, 0)
    harness.append_all(harness.coordinator.snapshots_of_cold_partitions(harness.now))
    snapshot = harness.records[-1].change
    assert isinstance(snapshot, ShareState)
    assert (snapshot.snapshot_epoch, snapshot.create_wall_ms) == (1, 1_000)
    assert snapshot.write_wall_ms == 1_000 + COLD_MS
    assert harness.read(-1) == before
    harness.now = Moment(1_000 + 2 * COLD_MS, 0)
    harness.append_all(harness.coordinator.snapshots_of_cold_partitions(harness.now))
    assert len(harness.records) == 3, "all snapshots are of states without updates"
