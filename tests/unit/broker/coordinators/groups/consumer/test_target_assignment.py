"""Target assignments of large consumer groups are computed in steps, while the group may change."""

from __future__ import annotations

import pytest

from tests.support.configs import consumer_group_config
from tests.support.groups.consumer_members import LEAVE_FOR_A_WHILE, MemberClient
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.loops.python_calls import count_all_calls
from tidelog.broker.coordinators.groups.consumer import target_assignment
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord

PARTITIONS = 4
PARTITIONS_OF_ALL_TOPICS, MEMBERS_OF_A_LARGE_GROUP = 2_000, 100
END = object()
IMMEDIATE = consumer_group_config(group_consumer_assignment_interval_ms=0)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> GroupCoordinatorFixture:
    """Return a coordinator that computes every target in steps, which wait until the test completes them."""
    monkeypatch.setattr(target_assignment, "ELEMENTS_AT_ONCE_MAX", 0)
    fixture = GroupCoordinatorFixture(consumer_config=IMMEDIATE)
    fixture.holds_computations = True
    fixture.add_partitions("t", PARTITIONS)
    return fixture


def group_of(coordinator: GroupCoordinatorFixture) -> ConsumerGroup:
    group = coordinator.coordinator._groups.consumers.find("g")
    assert group is not None
    return group


def complete(coordinator: GroupCoordinatorFixture, *members: MemberClient) -> None:
    """Let all members reach the target of the group epoch."""
    for _ in range(4):
        coordinator.complete_computations()
        for member in members:
            member.heartbeat(coordinator)


def test_members_keep_the_last_target_until_the_new_one_is_computed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    assert (member.epoch, member.owned) == (1, set()), "the epoch of the empty target of a new group"
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1, "one computation at a time"
    assert group_of(coordinator).state is ConsumerGroupState.ASSIGNING
    coordinator.complete_computations()
    member.heartbeat(coordinator)
    assert (member.epoch, len(member.owned)) == (2, PARTITIONS)
    assert group_of(coordinator).state is ConsumerGroupState.STABLE


def test_a_member_that_joins_meanwhile_gets_partitions_from_the_next_computation(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    coordinator.complete_computations()
    epochs = group_of(coordinator).epochs
    assert (epochs.assignment_epoch, epochs.group_epoch) == (2, 3)
    assert "b" not in group_of(coordinator).target
    complete(coordinator, first, second)
    assert (len(first.owned), len(second.owned)) == (PARTITIONS // 2, PARTITIONS // 2)


def test_a_member_that_left_meanwhile_gets_no_target(coordinator: GroupCoordinatorFixture) -> None:
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    complete(coordinator, first)
    second.heartbeat(coordinator)
    assert len(coordinator.computations) == 1
    second.leave(coordinator)
    coordinator.complete_computations()
    assert group_of(coordinator).target.keys() == {"a"}
    complete(coordinator, first)
    assert len(first.owned) == PARTITIONS


@pytest.mark.parametrize("moves", [False, True])
def test_a_static_member_that_restarts_meanwhile_gets_the_target_of_its_earlier_instance(
    coordinator: GroupCoordinatorFixture, moves: bool
) -> None:
    static, other = MemberClient("a", instance_id="i"), MemberClient("b")
    static.heartbeat(coordinator)
    complete(coordinator, static)
    other.heartbeat(coordinator)
    static.leave(coordinator, LEAVE_FOR_A_WHILE)
    static.member_id = "c"
    static.heartbeat(coordinator)
    if moves:
        coordinator = coordinator.reload()
        coordinator.holds_computations = True
        static.heartbeat(coordinator)
    coordinator.complete_computations()
    targets = group_of(coordinator).target
    assert {name: sum(map(len, target.values())) for name, target in targets.items()} == {"b": 2, "c": 2}
    complete(coordinator, static, other)
    assert sorted(static.indexes() + other.indexes()) == list(range(PARTITIONS))


def test_the_target_of_a_deleted_group_is_not_written(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    member.leave(coordinator)
    coordinator.finish(coordinator.coordinator.administration.delete_groups(("g",)))
    size = len(coordinator.log)
    coordinator.complete_computations()
    assert len(coordinator.log) == size
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1, "the next group can compute its own"


def test_a_computation_that_failed_is_started_again(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    groups, computation = coordinator.computations.pop()
    groups.on_not_computed(computation)
    member.heartbeat(coordinator)
    assert len(coordinator.computations) == 1


def test_a_target_whose_group_epoch_was_not_appended_is_not_computed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    """The next command starts the same epoch: the target of the rejected member would count for it."""
    first, other = MemberClient("a"), MemberClient("c")
    first.heartbeat(coordinator)
    complete(coordinator, first)
    coordinator.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        MemberClient("b").heartbeat(coordinator)
    coordinator.append_error = None
    assert not coordinator.computations
    other.heartbeat(coordinator)
    complete(coordinator, first, other)
    assert sorted(first.indexes() + other.indexes()) == list(range(PARTITIONS))


def test_topics_that_are_created_or_deleted_meanwhile_count_for_the_next_computation(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = MemberClient("a", ("t", "u", "v"))
    coordinator.add_partitions("u", 1)
    member.heartbeat(coordinator)
    coordinator.add_partitions("v", 2)
    coordinator.change_topics([RemoveTopicRecord(topic_id=coordinator.topic_id("u"))])
    complete(coordinator, member)
    assert len(member.owned) == PARTITIONS + 2


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_the_turns_of_a_large_target_do_little_work(assignor: str, is_homogeneous: bool) -> None:
    coordinator = GroupCoordinatorFixture(consumer_config=IMMEDIATE)
    coordinator.holds_computations = True
    for topic in range(20):
        coordinator.add_partitions(f"t{topic}", 100)
    for number in range(MEMBERS_OF_A_LARGE_GROUP):
        topics = tuple(f"t{topic}" for topic in range(20) if is_homogeneous or (topic + number) % 2)
        MemberClient(f"m{number}", topics, assignor=assignor).heartbeat(coordinator)
    # The first target was computed for the first member, while the others joined.
    coordinator.complete_computations()
    MemberClient("m0", epoch=1).send(coordinator, 1)
    ((_, computation),) = coordinator.computations
    has_ended, calls, steps = False, 0, 0
    while not has_ended:
        has_ended, count = count_all_calls(lambda: next(computation.steps, END) is END)
        calls, steps = max(calls, count), steps + 1
    assert steps > MEMBERS_OF_A_LARGE_GROUP
    assert calls < PARTITIONS_OF_ALL_TOPICS, "in one step"
