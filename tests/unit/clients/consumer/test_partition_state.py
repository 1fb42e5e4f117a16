from __future__ import annotations

from tidelog.clients.consumer.consumer_types import FetchPosition
from tidelog.clients.consumer.partition_state import (
    EARLIEST_TIMESTAMP,
    AssignedPartitions,
    FetchState,
    PartitionState,
)
from tidelog.protocol.ids import TopicPartition

P0, P1 = TopicPartition("tides", 0), TopicPartition("tides", 1)


def fetching_state(offset: int = 10, offset_epoch: int = 3, leader_epoch: int = 3) -> PartitionState:
    state = PartitionState(P0)
    state.seek(FetchPosition(offset, offset_epoch, leader_epoch), leader_epoch)
    return state


def test_a_new_partition_needs_a_position() -> None:
    state = PartitionState(P0)
    assert state.state is FetchState.INITIALIZING
    assert not state.is_fetchable


def test_a_seek_without_epoch_needs_no_validation() -> None:
    state = PartitionState(P0)
    state.seek(FetchPosition(5), 9)
    assert state.is_fetchable
    assert state.position == FetchPosition(5, -1, 9)


def test_a_committed_position_with_an_older_epoch_is_validated_first() -> None:
    state = PartitionState(P0)
    state.seek(FetchPosition(5, 2), 9)
    assert state.state is FetchState.AWAIT_VALIDATION
    state.on_validated(9)
    assert state.is_fetchable
    assert state.position == FetchPosition(5, 2, 9)


def test_a_new_leader_epoch_requires_validation() -> None:
    state = fetching_state()
    state.on_leader_changed(3)
    assert state.is_fetchable
    generation = state.generation
    state.on_leader_changed(4)
    assert state.state is FetchState.AWAIT_VALIDATION
    assert state.generation > generation


def test_a_position_without_records_needs_no_validation() -> None:
    state = fetching_state(offset_epoch=-1)
    state.on_leader_changed(4)
    assert state.is_fetchable
    assert state.position == FetchPosition(10, -1, 4)


def test_a_reset_clears_the_position_until_the_offset_is_known() -> None:
    state = fetching_state()
    state.await_reset(EARLIEST_TIMESTAMP)
    assert state.reset_timestamp == EARLIEST_TIMESTAMP
    assert not state.is_fetchable
    state.on_leader_changed(8)
    assert state.state is FetchState.AWAIT_RESET
    state.seek(FetchPosition(0), 8)
    assert state.is_fetchable


def test_a_paused_partition_keeps_its_position() -> None:
    state = fetching_state()
    state.paused = True
    assert not state.is_fetchable
    state.paused = False
    assert state.position == FetchPosition(10, 3, 3)


def test_a_new_assignment_keeps_positions_of_remaining_partitions() -> None:
    assigned = AssignedPartitions()
    assigned.set([P0, P1])
    before = assigned.get(P1)
    assigned.set([P1])
    assert assigned.get(P1) is before
    assert assigned.get(P0) is None
    assert assigned.topic_partitions == (P1,)


def test_partitions_rotate() -> None:
    assigned = AssignedPartitions()
    assigned.set([P0, P1])
    assigned.move_to_end(P0)
    assert assigned.topic_partitions == (P1, P0)
