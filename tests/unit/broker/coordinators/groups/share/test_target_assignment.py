"""Target assignments of large share groups are computed in steps, while the group may change."""

from __future__ import annotations

import pytest

from tests.support.configs import share_group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.share_members import LEAVE, ShareClient, initialize
from tests.support.loops.python_calls import count_all_calls
from tidelog.broker.coordinators.groups.share import target_assignment
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.protocol.errors import ErrorCode, KafkaError

PARTITIONS = 4
MANY_PARTITIONS = 2_000
END = object()
IMMEDIATE = share_group_config(group_share_assignment_interval_ms=0)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> GroupCoordinatorFixture:
    """Return a coordinator that computes every target in steps, which wait until the test completes them."""
    monkeypatch.setattr(target_assignment, "ELEMENTS_AT_ONCE_MAX", 0)
    fixture = GroupCoordinatorFixture(share_config=IMMEDIATE)
    fixture.holds_computations = True
    fixture.add_partitions("t", PARTITIONS)
    return fixture


def group_of(coordinator: GroupCoordinatorFixture) -> ShareGroup:
    group = coordinator.coordinator._groups.shares.find("g")
    assert group is not None
    return group


def initialized_member(coordinator: GroupCoordinatorFixture) -> ShareClient:
    """Return the first member of a group whose states are initialized, and whose first target is empty."""
    member = ShareClient("a")
    member.heartbeat(coordinator)
    initialize(coordinator, member.to_initialize)
    coordinator.complete_computations()
    return member


def test_members_keep_the_last_target_until_the_new_one_is_computed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = initialized_member(coordinator)
    member.heartbeat(coordinator)
    assert member.partitions == []
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1, "one computation at a time"
    coordinator.complete_computations()
    member.heartbeat(coordinator)
    assert len(member.partitions) == PARTITIONS
    assert member.epoch == group_of(coordinator).epochs.group_epoch


def test_members_that_join_or_leave_meanwhile_get_partitions_from_the_next_computation(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second, third = initialized_member(coordinator), ShareClient("b"), ShareClient("c")
    second.heartbeat(coordinator)
    third.heartbeat(coordinator)
    second.heartbeat(coordinator, LEAVE)
    coordinator.complete_computations()
    assert group_of(coordinator).target.keys() == {"a"}
    for _ in range(2):
        first.heartbeat(coordinator)
        coordinator.complete_computations()
        third.heartbeat(coordinator)
    first.heartbeat(coordinator)
    assert (len(first.partitions), len(third.partitions)) == (PARTITIONS // 2, PARTITIONS // 2)


def test_the_target_of_a_group_that_was_deleted_or_not_appended_is_not_written(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = initialized_member(coordinator)
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        member.heartbeat(coordinator)
    coordinator.append_error = None
    size = len(coordinator.log)
    coordinator.complete_computations()
    assert len(coordinator.log) == size
    member.heartbeat(coordinator)
    groups, computation = coordinator.computations.pop()
    groups.on_not_computed(computation)
    member.heartbeat(coordinator)
    member.heartbeat(coordinator, LEAVE)
    coordinator.finish(coordinator.coordinator.administration.delete_groups(("g",)))
    size = len(coordinator.log)
    coordinator.complete_computations()
    assert len(coordinator.log) == size


@pytest.mark.parametrize("topics", [("t",), ("t", "u")])
def test_the_steps_of_a_large_target_do_little_work(topics: tuple[str, ...]) -> None:
    coordinator = GroupCoordinatorFixture(share_config=IMMEDIATE)
    coordinator.holds_computations = True
    coordinator.add_partitions("t", MANY_PARTITIONS)
    coordinator.add_partitions("u", 1)
    first = initialized_member(coordinator)
    for number in range(100):
        ShareClient(f"m{number}", topics).heartbeat(coordinator)
    coordinator.complete_computations()
    first.heartbeat(coordinator)
    ((_, computation),) = coordinator.computations
    has_ended, calls, steps = False, 0, 0
    while not has_ended:
        has_ended, count = count_all_calls(lambda: next(computation.steps, END) is END)
        calls, steps = max(calls, count), steps + 1
    assert steps > MANY_PARTITIONS
    assert calls < MANY_PARTITIONS * 2, "in one step"
