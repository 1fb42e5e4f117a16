"""ConsumerGroupHeartbeat: epochs, fencing, static members, expressions, timeouts, configs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.configs import consumer_group_config
from tests.support.groups.consumer_members import LEAVE_FOR_A_WHILE, MemberClient
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from tidelog.broker.coordinators.groups.consumer.member import MemberState
from tidelog.cluster.image import ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)

IMMEDIATE = consumer_group_config(group_consumer_assignment_interval_ms=0)
SESSION_MS = 45_000


@pytest.fixture
def coordinator() -> GroupCoordinatorFixture:
    """Return a coordinator that assigns at once, with the topics t (4 partitions) and u (2)."""
    fixture = GroupCoordinatorFixture(consumer_config=IMMEDIATE)
    fixture.add_partitions("t", 4)
    fixture.add_partitions("u", 2)
    return fixture


def group_of(coordinator: GroupCoordinatorFixture) -> ConsumerGroup:
    group = coordinator.coordinator._groups.consumers.find("g")
    assert group is not None
    return group


def two_members(coordinator: GroupCoordinatorFixture) -> tuple[MemberClient, MemberClient]:
    """Return two members that share the topic t."""
    first, second = MemberClient("a"), MemberClient("b")
    for member in (first, second, first, first, second):
        member.heartbeat(coordinator)
    assert (first.indexes(), second.indexes()) == ([0, 1], [2, 3])
    return first, second


def rejection(member: MemberClient, coordinator: GroupCoordinatorFixture) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        member.heartbeat(coordinator)
    return error.value.code


def test_the_first_member_gets_all_partitions_in_epoch_2_and_the_group_is_stable(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = MemberClient("a")
    response = member.heartbeat(coordinator)
    assert (response.member_epoch, response.heartbeat_interval_ms) == (2, 5_000)
    assert member.indexes() == [0, 1, 2, 3]
    group = group_of(coordinator)
    assert (group.epochs.group_epoch, group.epochs.assignment_epoch, group.state) == (
        2,
        2,
        ConsumerGroupState.STABLE,
    )
    assert member.heartbeat(coordinator).assignment is None, "an unchanged assignment is not sent"


def test_a_second_member_gets_partitions_when_the_first_has_revoked_them(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    assert (second.indexes(), group_of(coordinator).state) == ([], ConsumerGroupState.RECONCILING)
    first.heartbeat(coordinator, revokes=False)
    second.heartbeat(coordinator)
    assert (first.indexes(), second.indexes()) == ([0, 1, 2, 3], [])
    for member in (first, first, second):
        member.heartbeat(coordinator)
    assert (first.indexes(), second.indexes()) == ([0, 1], [2, 3])
    assert group_of(coordinator).state is ConsumerGroupState.STABLE


def test_a_lost_response_is_repeated_with_the_previous_epoch(coordinator: GroupCoordinatorFixture) -> None:
    first, second = two_members(coordinator)
    second.leave(coordinator)
    first.heartbeat(coordinator, loses_response=True)
    assert group_of(coordinator).members["a"].member_epoch == first.epoch + 1
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=first.epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(RequestTopicPartitions(topic_id=coordinator.topic_id("t"), partitions=(0, 1)),),
    )
    outcome = coordinator.coordinator.consumers.heartbeat(Client("c", "/h"), request, 1, coordinator.now)
    response = coordinator.finish(outcome).response
    assert response.assignment is not None
    assert response.assignment.topic_partitions[0].partitions == (0, 1, 2, 3)


@pytest.mark.parametrize("change", [-1, 1, 5])
def test_another_epoch_is_fenced_and_the_member_may_join_again(
    coordinator: GroupCoordinatorFixture, change: int
) -> None:
    first, _ = two_members(coordinator)
    first.epoch += change
    first.owned.add((coordinator.topic_id("t"), 3))
    assert rejection(first, coordinator) is ErrorCode.FENCED_MEMBER_EPOCH
    assert not first.owned
    first.heartbeat(coordinator)
    assert first.indexes() == [0, 1]


def test_unknown_groups_and_members_are_rejected(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a", epoch=3)
    assert rejection(member, coordinator) is ErrorCode.GROUP_ID_NOT_FOUND
    MemberClient("b").heartbeat(coordinator)
    assert rejection(member, coordinator) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("changes", "version", "text"),
    [
        ({"member_id": ""}, 1, "MemberId can't be empty."),
        ({"member_id": " ", "member_epoch": -1}, 0, "MemberId can't be empty."),
        ({"group_id": " "}, 1, "GroupId can't be empty."),
        ({"instance_id": ""}, 1, "InstanceId can't be empty."),
        ({"rack_id": ""}, 1, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, 1, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, 1, "TopicPartitions must be empty when"),
        ({"subscribed_topic_names": None}, 1, "Either SubscribedTopicNames or SubscribedTopicRegex"),
        ({"member_epoch": -2}, 1, "InstanceId can't be null."),
        ({"member_epoch": -3}, 1, "MemberEpoch is invalid."),
        ({"server_assignor": "sticky"}, 1, "Supported assignors: uniform, range."),
    ],
)
def test_invalid_requests_are_rejected(
    coordinator: GroupCoordinatorFixture, changes: dict[str, object], version: int, text: str
) -> None:
    valid = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    request = replace(valid, **changes)  # type: ignore[arg-type]
    with pytest.raises(KafkaError, match=text):
        coordinator.coordinator.consumers.heartbeat(Client("c", "/h"), request, version, coordinator.now)


def test_a_member_of_version_0_gets_its_id_from_the_coordinator(coordinator: GroupCoordinatorFixture) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", rebalance_timeout_ms=1, subscribed_topic_names=("t",), topic_partitions=()
    )
    outcome = coordinator.coordinator.consumers.heartbeat(Client("c", "/h"), request, 0, coordinator.now)
    assert coordinator.finish(outcome).response.member_id in group_of(coordinator).members


def test_a_full_group_rejects_new_members_only() -> None:
    config = replace(IMMEDIATE, group_consumer_max_size=1)
    coordinator = GroupCoordinatorFixture(consumer_config=config)
    coordinator.add_partitions("t", 1)
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    assert rejection(second, coordinator) is ErrorCode.GROUP_MAX_SIZE_REACHED
    first.heartbeat(coordinator)


# Static members


def test_a_static_member_that_left_for_a_while_gets_its_partitions_back(
    coordinator: GroupCoordinatorFixture,
) -> None:
    static, other = MemberClient("a", instance_id="i"), MemberClient("b")
    for member in (static, other, static, static, other):
        member.heartbeat(coordinator)
    before = static.indexes()
    static.leave(coordinator, LEAVE_FOR_A_WHILE)
    other.heartbeat(coordinator)
    epoch = group_of(coordinator).epochs.group_epoch
    back = MemberClient("z", instance_id="i")
    back.heartbeat(coordinator)
    assert (back.indexes(), group_of(coordinator).epochs.group_epoch) == (before, epoch)
    assert set(group_of(coordinator).members) == {"z", "b"}


def test_a_static_member_that_stays_away_is_removed_after_its_session(
    coordinator: GroupCoordinatorFixture,
) -> None:
    static = MemberClient("a", instance_id="i")
    static.heartbeat(coordinator)
    static.leave(coordinator, LEAVE_FOR_A_WHILE)
    coordinator.pass_time(SESSION_MS)
    assert group_of(coordinator).is_empty


def test_the_instance_id_of_an_active_member_is_not_released(coordinator: GroupCoordinatorFixture) -> None:
    MemberClient("a", instance_id="i").heartbeat(coordinator)
    assert rejection(MemberClient("b", instance_id="i"), coordinator) is ErrorCode.UNRELEASED_INSTANCE_ID
    fenced = MemberClient("b", instance_id="i", epoch=2)
    assert rejection(fenced, coordinator) is ErrorCode.FENCED_INSTANCE_ID
    unknown = MemberClient("b", instance_id="j", epoch=2)
    assert rejection(unknown, coordinator) is ErrorCode.UNKNOWN_MEMBER_ID


# Topics and expressions


def test_new_partitions_of_a_subscribed_topic_start_a_new_epoch(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a")
    member.heartbeat(coordinator)
    coordinator.add_partitions("u", 1)
    member.heartbeat(coordinator)
    assert member.epoch == 2, "the member does not subscribe to u"
    coordinator.add_partitions("t", 1)
    member.heartbeat(coordinator)
    assert (member.epoch, member.indexes()) == (3, [0, 1, 2, 3, 4])


def test_an_expression_follows_new_topics(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a", (), "t.*")
    member.heartbeat(coordinator)
    member.heartbeat(coordinator)
    assert member.indexes() == [0, 1, 2, 3]
    coordinator.add_partitions("t2", 1)
    coordinator.pass_time(10_001)
    for _ in range(2):
        member.heartbeat(coordinator)
    assert len(member.owned) == 5
    member.subscribe((), "")
    member.heartbeat(coordinator)
    member.heartbeat(coordinator)
    assert not member.owned
    assert not group_of(coordinator).subscriptions.resolved


def test_an_invalid_expression_is_rejected(coordinator: GroupCoordinatorFixture) -> None:
    member = MemberClient("a", (), "t(")
    assert rejection(member, coordinator) is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_members_with_names_and_members_with_expressions_share_a_group(
    coordinator: GroupCoordinatorFixture,
) -> None:
    named, matching = MemberClient("a", ("u",)), MemberClient("b", (), "[tu]")
    for member in (named, matching, matching, named, matching, named, matching):
        member.heartbeat(coordinator)
    assert len(named.owned) + len(matching.owned) == 6
    assert not named.owned & matching.owned


def test_the_assignor_that_most_members_request_is_used(coordinator: GroupCoordinatorFixture) -> None:
    group = group_of
    members = [
        MemberClient(name, assignor=assignor)
        for name, assignor in zip("abc", ["range", "range", None], strict=True)
    ]
    for member in members:
        member.heartbeat(coordinator)
    assert group(coordinator).preferred_assignor() == "range"
    members[0].leave(coordinator)
    members[1].leave(coordinator)
    assert group(coordinator).preferred_assignor() is None


# Time


def test_assignments_are_at_least_the_interval_apart() -> None:
    coordinator = GroupCoordinatorFixture(consumer_config=consumer_group_config())
    coordinator.add_partitions("t", 2)
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    group = group_of(coordinator)
    assert (group.epochs.group_epoch, group.epochs.assignment_epoch, group.state) == (
        3,
        2,
        ConsumerGroupState.ASSIGNING,
    )
    coordinator.pass_time(1_000)
    second.heartbeat(coordinator)
    assert group_of(coordinator).epochs.assignment_epoch == 3


def test_a_member_whose_session_expires_is_removed(coordinator: GroupCoordinatorFixture) -> None:
    first, second = two_members(coordinator)
    coordinator.pass_time(SESSION_MS - 1)
    first.heartbeat(coordinator)
    coordinator.pass_time(1)
    assert set(group_of(coordinator).members) == {"a"}
    first.heartbeat(coordinator)
    assert first.indexes() == [0, 1, 2, 3]
    assert rejection(second, coordinator) is ErrorCode.UNKNOWN_MEMBER_ID


def test_two_members_whose_sessions_expire_together_are_both_removed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    two_members(coordinator)
    coordinator.pass_time(SESSION_MS)
    group = group_of(coordinator)
    assert group.is_empty
    assert group.epochs.group_epoch == 5, "each removal has its own epoch"


def test_a_member_that_does_not_revoke_in_its_rebalance_timeout_is_removed(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    for _ in range(7):
        if "a" in group_of(coordinator).members:
            first.heartbeat(coordinator, revokes=False)
        second.heartbeat(coordinator)
        coordinator.pass_time(10_000)
    second.heartbeat(coordinator)
    assert second.indexes() == [0, 1, 2, 3]


def test_the_configs_of_a_group_apply_within_the_limits_of_the_broker(
    coordinator: GroupCoordinatorFixture,
) -> None:
    configs = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "999000"}
    image = coordinator.image
    coordinator.image = replace(image, configs={(ResourceType.GROUP, "g"): configs})
    member = MemberClient("a")
    assert member.heartbeat(coordinator).heartbeat_interval_ms == 7_000
    coordinator.pass_time(59_999)
    assert not group_of(coordinator).is_empty
    coordinator.pass_time(1)
    assert group_of(coordinator).is_empty


# The log


def test_another_coordinator_continues_from_the_log(coordinator: GroupCoordinatorFixture) -> None:
    first, second = two_members(coordinator)
    coordinator.add_partitions("t", 1)
    first.heartbeat(coordinator)
    other = coordinator.reload()
    left, right = group_of(coordinator), group_of(other)
    assert (left.members, left.target, left.epochs.group_epoch, left.epochs.metadata_hash) == (
        right.members,
        right.target,
        right.epochs.group_epoch,
        right.epochs.metadata_hash,
    )
    for member in (first, second, first, second):
        member.heartbeat(other)
    assert len(first.owned) + len(second.owned) == 5


def test_a_coordinator_that_loads_a_group_gives_members_time_to_revoke(
    coordinator: GroupCoordinatorFixture,
) -> None:
    first, second = MemberClient("a"), MemberClient("b")
    first.heartbeat(coordinator)
    second.heartbeat(coordinator)
    first.heartbeat(coordinator, revokes=False)
    assert group_of(coordinator).members["a"].state is MemberState.UNREVOKED_PARTITIONS
    other = coordinator.reload()
    for _ in range(3):
        other.pass_time(20_000)
        if "a" in group_of(other).members:
            first.send(other, first.epoch)
        second.heartbeat(other)
    assert set(group_of(other).members) == {"b"}


def test_a_topic_that_was_created_while_the_coordinator_moved_is_matched_by_the_next_one(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = MemberClient("a", (), "t.*")
    for _ in range(2):
        member.heartbeat(coordinator)
    coordinator.add_partitions("t2", 1)
    other = coordinator.reload()
    other.pass_time(10_001)
    for _ in range(2):
        member.heartbeat(other)
    assert len(member.owned) == 5


def test_a_member_that_leaves_last_leaves_an_empty_group_that_can_be_deleted(
    coordinator: GroupCoordinatorFixture,
) -> None:
    member = MemberClient("a", ("t",), "u")
    member.heartbeat(coordinator)
    member.leave(coordinator)
    group = group_of(coordinator)
    assert (group.state, group.target, group.subscriptions.resolved) == (ConsumerGroupState.EMPTY, {}, {})
    coordinator.finish(coordinator.coordinator.administration.delete_groups(("g",)))
    assert coordinator.coordinator._groups.find("g") is None
    assert coordinator.reload().coordinator._groups.find("g") is None
