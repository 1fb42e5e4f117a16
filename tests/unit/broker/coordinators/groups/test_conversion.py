"""Conversions between classic groups and consumer groups, and classic members in consumer groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.configs import consumer_group_config, group_config
from tests.support.groups.classic_members import ClassicClient
from tests.support.groups.consumer_members import LEAVE_FOR_A_WHILE, MemberClient
from tests.support.groups.coordinator import GroupCoordinatorFixture, subscription
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.protocol.errors import ErrorCode, KafkaError

CONSUMER_CONFIG = consumer_group_config(group_consumer_assignment_interval_ms=0)
SESSION_MS = 45_000


def new_coordinator(policy: str = "bidirectional") -> GroupCoordinatorFixture:
    coordinator = GroupCoordinatorFixture(
        config=group_config(group_initial_rebalance_delay_ms=0),
        consumer_config=replace(CONSUMER_CONFIG, group_consumer_migration_policy=policy),
    )
    coordinator.add_partitions("t", 4)
    return coordinator


def consumer_group(coordinator: GroupCoordinatorFixture) -> ConsumerGroup:
    group = coordinator.coordinator._groups.consumers.find("g")
    assert group is not None
    return group


def state_of_classic(coordinator: GroupCoordinatorFixture) -> GroupState | None:
    group = coordinator.coordinator._groups.get("g")
    return None if group is None else group.state


def run(
    coordinator: GroupCoordinatorFixture, *members: MemberClient | ClassicClient, rounds: int = 6
) -> None:
    """Let the members take turns until they have settled."""
    for _ in range(rounds):
        coordinator.pass_time(100)
        for member in members:
            if isinstance(member, MemberClient):
                member.heartbeat(coordinator)
            else:
                member.step(coordinator)


def stable_classic_group(coordinator: GroupCoordinatorFixture) -> tuple[ClassicClient, ClassicClient]:
    first, second = ClassicClient(), ClassicClient()
    run(coordinator, first, second)
    assert state_of_classic(coordinator) is GroupState.STABLE
    return first, second


def test_members_keep_ids_generation_and_partitions_when_their_group_becomes_a_consumer_group() -> None:
    coordinator = new_coordinator()
    first, second = stable_classic_group(coordinator)
    generation, owned = first.generation, set(first.owned)
    new = MemberClient("m")
    new.heartbeat(coordinator)
    group = consumer_group(coordinator)
    assert state_of_classic(coordinator) is None
    member = group.members[first.member_id]
    assert member.uses_classic_protocol
    assert (member.member_epoch, group.epochs.group_epoch) == (generation, generation + 1)
    assert {(topic, index) for topic, indexes in member.assigned.items() for index in indexes} == owned
    run(coordinator, first, second, new)
    assert sorted(len(each.owned) for each in (first, second, new)) == [1, 1, 2]
    assert len(first.owned | second.owned | new.owned) == 4


@pytest.mark.parametrize("way", ["leave", "session"])
def test_a_group_becomes_classic_when_its_last_member_of_the_new_protocol_is_gone(way: str) -> None:
    coordinator = new_coordinator()
    first, second = stable_classic_group(coordinator)
    new = MemberClient("m")
    run(coordinator, first, second, new)
    if way == "leave":
        new.leave(coordinator)
    else:
        for _ in range(5):
            run(coordinator, first, second, rounds=1)
            coordinator.pass_time(SESSION_MS // 5)
    assert coordinator.coordinator._groups.consumers.find("g") is None
    assert state_of_classic(coordinator) is GroupState.PREPARING_REBALANCE
    run(coordinator, first, second)
    assert state_of_classic(coordinator) is GroupState.STABLE
    assert (len(first.owned), len(second.owned)) == (2, 2)
    again = coordinator.reload()
    assert state_of_classic(again) is GroupState.STABLE


def test_a_classic_member_that_replaces_the_last_static_member_makes_the_group_classic() -> None:
    coordinator = new_coordinator()
    new, classic = MemberClient("m", instance_id="i"), ClassicClient()
    run(coordinator, new, classic)
    new.leave(coordinator, LEAVE_FOR_A_WHILE)
    old_client = ClassicClient(instance_id="i")
    run(coordinator, classic, old_client)
    assert state_of_classic(coordinator) is GroupState.STABLE
    assert (len(classic.owned), len(old_client.owned)) == (2, 2)


def test_a_consumer_member_replaces_a_classic_static_member_without_waiting() -> None:
    coordinator = new_coordinator()
    classic = ClassicClient(instance_id="i")
    run(coordinator, classic)
    owned = set(classic.owned)
    new = MemberClient("m", instance_id="i")
    run(coordinator, new)
    assert new.owned == owned
    assert set(consumer_group(coordinator).members) == {"m"}


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
        ("Bidirectional", True, True),
    ],
)
def test_the_policy_limits_conversions_of_groups_with_members(
    policy: str, upgrades: bool, downgrades: bool
) -> None:
    coordinator = new_coordinator(policy)
    first, second = stable_classic_group(coordinator)
    new = MemberClient("m")
    if not upgrades:
        with pytest.raises(KafkaError) as error:
            new.heartbeat(coordinator)
        assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        return
    run(coordinator, first, second, new)
    new.leave(coordinator)
    assert (state_of_classic(coordinator) is not None) is downgrades


def test_a_classic_member_cannot_join_a_consumer_group_if_migration_is_disabled() -> None:
    coordinator = new_coordinator("disabled")
    MemberClient("m").heartbeat(coordinator)
    assert coordinator.join("g").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_groups_without_members_are_always_converted() -> None:
    coordinator = new_coordinator("disabled")
    coordinator.commit({("t", 0): 5})
    new = MemberClient("m")
    new.heartbeat(coordinator)
    assert state_of_classic(coordinator) is None
    new.leave(coordinator)
    classic = ClassicClient()
    run(coordinator, classic)
    assert coordinator.coordinator._groups.consumers.find("g") is None
    assert len(classic.owned) == 4
    assert state_of_classic(coordinator.reload()) is GroupState.STABLE


@pytest.mark.parametrize(
    ("protocol_type", "metadata"), [("connect", b"x"), ("consumer", b""), ("consumer", b"\0\0\xff")]
)
def test_a_group_without_readable_subscriptions_is_not_converted(protocol_type: str, metadata: bytes) -> None:
    coordinator = new_coordinator()
    coordinator.join_as_new_member("g", protocol_type=protocol_type, protocols=(("range", metadata),))
    coordinator.pass_time(1)
    with pytest.raises(KafkaError) as error:
        MemberClient("m").heartbeat(coordinator)
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert state_of_classic(coordinator) is not None


def test_classic_requests_to_a_consumer_group_are_checked() -> None:
    coordinator = new_coordinator()
    new, classic = MemberClient("m"), ClassicClient()
    run(coordinator, new, classic)
    assert coordinator.heartbeat("m", new.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(classic.member_id, 99) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.heartbeat("x", 1, instance="x") is ErrorCode.UNKNOWN_MEMBER_ID
    generation = classic.generation
    sync = coordinator.sync(classic.member_id, generation, protocol_name="sticky")
    assert sync.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.sync(classic.member_id, generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    other = coordinator.join("g", protocols=(("sticky", subscription("t")),))
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    invalid = coordinator.join("g", protocols=(("range", b"\0"),), version=3)
    assert invalid.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_that_rejoins_unchanged_gets_a_response_at_once() -> None:
    coordinator = new_coordinator()
    new, classic = MemberClient("m"), ClassicClient()
    run(coordinator, new, classic)
    joined = coordinator.join(
        "g", classic.member_id, protocols=(("range", subscription("t")),), session_ms=45_000
    )
    assert (joined.error, joined.reply.generation_id) == (ErrorCode.NONE, classic.generation)


@pytest.mark.parametrize("step", ["join", "sync"])
def test_a_classic_member_that_does_not_join_or_sync_in_time_is_removed(step: str) -> None:
    coordinator = new_coordinator()
    new, classic = MemberClient("m"), ClassicClient()
    run(coordinator, new, classic)
    third = MemberClient("n")
    third.heartbeat(coordinator)
    metadata = (("range", subscription("t")),)
    for _ in range(7):
        if classic.member_id in consumer_group(coordinator).members:
            if step == "sync":
                coordinator.join("g", classic.member_id, protocols=metadata, session_ms=45_000)
                step = "heartbeat"
            coordinator.heartbeat(classic.member_id, consumer_group(coordinator).epochs.group_epoch)
            coordinator.heartbeat(classic.member_id, classic.generation)
        coordinator.pass_time(10_000)
        run(coordinator, new, third, rounds=1)
    assert set(consumer_group(coordinator).members) == {"m", "n"}


def test_members_of_both_protocols_leave_by_leave_group() -> None:
    coordinator = new_coordinator()
    new, other, classic = MemberClient("m"), MemberClient("n", instance_id="i"), ClassicClient()
    run(coordinator, new, other, classic)
    response = coordinator.leave(
        (classic.member_id, None), ("", "i"), ("x", None), ("x", "i"), (classic.member_id, None)
    )
    assert [ErrorCode(each.error_code) for each in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert set(consumer_group(coordinator).members) == {"m"}
    assert coordinator.leave(("y", None), version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_joins_of_a_group_that_is_converted_get_rebalance_in_progress() -> None:
    coordinator = new_coordinator()
    first, _ = stable_classic_group(coordinator)
    metadata = (("range", subscription("t", "u")),)
    waiting = coordinator.join("g", first.member_id, protocols=metadata)
    assert waiting.is_waiting
    MemberClient("m").heartbeat(coordinator)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_joins_does_not_prevent_that_expressions_follow_new_topics() -> None:
    coordinator = new_coordinator()
    matching, classic = MemberClient("m", (), "t.*"), ClassicClient()
    matching.heartbeat(coordinator)
    run(coordinator, matching, classic)
    coordinator.add_partitions("t2", 1)
    coordinator.pass_time(10_001)
    another = ClassicClient()
    another.step(coordinator)  # the first request after the topic was created
    run(coordinator, another, matching, classic)
    names = {each.topics for each in consumer_group(coordinator).subscriptions.resolved.values()}
    assert names == {frozenset({"t", "t2"})}
