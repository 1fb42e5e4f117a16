"""Target assignments of large streams groups are computed in steps, while the group may change."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.streams_members import (
    StreamsClient,
    create_missing,
    streams_coordinator,
    streams_group,
)
from tidelog.broker.coordinators.groups.streams import target_assignment
from tidelog.broker.coordinators.groups.streams.group import StreamsGroupState
from tidelog.broker.coordinators.groups.streams.heartbeat import StreamsHeartbeatCommand
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
    coordinator.complete_computations()
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
    coordinator.complete_computations()
    member.heartbeat(coordinator)
    assert len(member.active) == FIRST_TASKS
    assert streams_group(coordinator).state is StreamsGroupState.STABLE


def test_a_member_that_joins_meanwhile_gets_tasks_from_the_next_computation(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = member_with_topics(coordinator), StreamsClient("b")
    second.heartbeat(coordinator)
    coordinator.complete_computations()
    group = streams_group(coordinator)
    assert group.epochs.assignment_epoch == group.epochs.group_epoch - 1
    for _ in range(3):
        first.heartbeat(coordinator)
        second.heartbeat(coordinator)
        coordinator.complete_computations()
    assert (len(first.active), len(second.active)) == (FIRST_TASKS // 2, FIRST_TASKS // 2)


def test_a_member_that_left_meanwhile_gets_no_target(coordinator: GroupCoordinatorFixture) -> None:
    first, second = member_with_topics(coordinator), StreamsClient("b")
    coordinator.complete_computations()
    second.heartbeat(coordinator)
    assert len(coordinator.computations) == 1
    second.leave(coordinator)
    coordinator.complete_computations()
    assert streams_group(coordinator).target.keys() == {"a"}
    first.heartbeat(coordinator)
    coordinator.complete_computations()
    first.heartbeat(coordinator)
    assert len(first.active) == FIRST_TASKS


def test_the_target_of_a_deleted_group_is_not_written(coordinator: GroupCoordinatorFixture) -> None:
    member = member_with_topics(coordinator)
    member.leave(coordinator)
    coordinator.finish(coordinator.coordinator.administration.delete_groups(("g",)))
    size = len(coordinator.log)
    coordinator.complete_computations()
    assert len(coordinator.log) == size
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1, "the next group can compute its own"


def test_a_computation_that_failed_is_started_again(coordinator: GroupCoordinatorFixture) -> None:
    member = member_with_topics(coordinator)
    streams, computation = coordinator.computations.pop()
    streams.on_not_computed(computation)
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1


def test_a_heartbeat_that_is_rejected_after_its_request_does_not_prevent_the_next_target(
    coordinator: GroupCoordinatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the group would keep its last target: at most one computation is requested at a time."""
    member = member_with_topics(coordinator)
    coordinator.complete_computations()
    error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    with monkeypatch.context() as patch, pytest.raises(KafkaError):
        patch.setattr(StreamsHeartbeatCommand, "_response", Mock(side_effect=error))
        StreamsClient("b").heartbeat(coordinator)
    coordinator.start_computations()
    coordinator.complete_computations()
    other = StreamsClient("b")
    for _ in range(3):
        other.heartbeat(coordinator)
        coordinator.complete_computations()
        member.heartbeat(coordinator)
    assert (len(member.active), len(other.active)) == (FIRST_TASKS // 2, FIRST_TASKS // 2)


def test_the_first_target_of_a_new_group_is_written(coordinator: GroupCoordinatorFixture) -> None:
    """The replay of its records creates the group; the command has computed with another object."""
    for topic in ("words", "counts"):
        coordinator.add_partitions(topic, 2)
    member = StreamsClient("a")
    member.heartbeat(coordinator)
    coordinator.complete_computations()
    assert streams_group(coordinator).target.keys() == {"a"}


def test_a_target_whose_group_epoch_was_not_appended_is_not_computed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    """The next command starts the same epoch: the target of the rejected member would count for it."""
    first, other = member_with_topics(coordinator), StreamsClient("c")
    coordinator.complete_computations()
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        StreamsClient("b").heartbeat(coordinator)
    coordinator.append_error = None
    assert not coordinator.computations
    for _ in range(3):
        other.heartbeat(coordinator)
        coordinator.complete_computations()
        first.heartbeat(coordinator)
    assert (len(first.active), len(other.active)) == (FIRST_TASKS // 2, FIRST_TASKS // 2)


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
    fixture.complete_computations()
    member.heartbeat(fixture)
    assert len(member.active) == 2 * (2 + ELEMENTS_AT_ONCE_MAX)
