"""Target assignments of large streams groups are computed in steps, while the group may change."""

from __future__ import annotations

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.streams_members import (
    StreamsClient,
    complete_computations,
    create_missing,
    streams_coordinator,
    streams_group,
)
from tidelog.broker.coordinators.groups.streams import target_assignment
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.broker.coordinators.groups.streams.target_assignment import ELEMENTS_AT_ONCE_MAX
from tidelog.protocol.errors import ErrorCode, KafkaError

FIRST_TASKS = 4
"""The tasks of `WORD_COUNT` with two partitions."""


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> GroupCoordinatorFixture:
    """Return a coordinator that computes every target in steps, which wait for `complete_computations`."""
    monkeypatch.setattr(target_assignment, "ELEMENTS_AT_ONCE_MAX", 0)
    fixture = streams_coordinator(group_streams_max_size=3)
    fixture.holds_computations = True
    return fixture


def member_with_topics(coordinator: GroupCoordinatorFixture) -> StreamsClient:
    """Return the first member of a group, whose internal topics exist, and whose target is computed."""
    member = StreamsClient("a")
    member.heartbeat(coordinator)
    create_missing(coordinator, member)
    complete_computations(coordinator)
    member.heartbeat(coordinator)
    return member


def test_members_keep_the_last_target_until_the_new_one_is_computed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = member_with_topics(coordinator)
    assert (member.active, len(coordinator.computations)) == (set(), 1)
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1, "one computation at a time"
    assert streams_group(coordinator).state is StreamsGroupState.ASSIGNING
    complete_computations(coordinator)
    member.heartbeat(coordinator)
    assert len(member.active) == FIRST_TASKS
    assert streams_group(coordinator).state is StreamsGroupState.STABLE


def test_a_member_that_joins_meanwhile_gets_tasks_from_the_next_computation(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = member_with_topics(coordinator), StreamsClient("b")
    second.heartbeat(coordinator)
    complete_computations(coordinator)
    group = streams_group(coordinator)
    assert group.epochs.assignment_epoch == group.epochs.group_epoch - 1
    for _ in range(3):
        first.heartbeat(coordinator)
        second.heartbeat(coordinator)
        complete_computations(coordinator)
    assert (len(first.active), len(second.active)) == (FIRST_TASKS // 2, FIRST_TASKS // 2)


def test_a_member_that_left_meanwhile_gets_no_target(coordinator: GroupCoordinatorFixture) -> None:
    first, second = member_with_topics(coordinator), StreamsClient("b")
    complete_computations(coordinator)
    second.heartbeat(coordinator)
    assert len(coordinator.computations) == 1
    second.leave(coordinator)
    complete_computations(coordinator)
    assert streams_group(coordinator).target.keys() == {"a"}
    first.heartbeat(coordinator)
    complete_computations(coordinator)
    first.heartbeat(coordinator)
    assert len(first.active) == FIRST_TASKS


def test_the_target_of_a_deleted_group_is_not_written(coordinator: GroupCoordinatorFixture) -> None:
    member = member_with_topics(coordinator)
    member.leave(coordinator)
    coordinator.finish(coordinator.coordinator.administration.delete_groups(("g",)))
    size = len(coordinator.log)
    complete_computations(coordinator)
    assert len(coordinator.log) == size
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1, "the next group can compute its own"


def test_a_computation_that_failed_is_started_again(coordinator: GroupCoordinatorFixture) -> None:
    member = member_with_topics(coordinator)
    coordinator.coordinator.streams.on_not_computed(coordinator.computations.pop())
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1


def test_a_target_whose_group_epoch_was_not_appended_is_not_written(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member_with_topics(coordinator)
    complete_computations(coordinator)
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        StreamsClient("b").heartbeat(coordinator)
    assert len(coordinator.computations) == 1
    coordinator.append_error = None
    size = len(coordinator.log)
    complete_computations(coordinator)
    assert len(coordinator.log) == size


def test_the_first_heartbeat_after_the_initial_delay_starts_the_computation_of_a_large_group() -> None:
    fixture = streams_coordinator(group_streams_initial_rebalance_delay_ms=3_000)
    fixture.holds_computations = True
    fixture.add_partitions("lines", ELEMENTS_AT_ONCE_MAX)
    member = StreamsClient("a")
    member.heartbeat(fixture)
    create_missing(fixture, member)
    member.heartbeat(fixture)
    fixture.pass_time(3_000)
    assert not fixture.computations
    member.heartbeat(fixture)
    complete_computations(fixture)
    member.heartbeat(fixture)
    assert len(member.active) == 2 * (2 + ELEMENTS_AT_ONCE_MAX)
