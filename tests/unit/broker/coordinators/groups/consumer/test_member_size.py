"""The memory of members of consumer groups is bounded like that of classic groups."""

from __future__ import annotations

import pytest

from tests.support.configs import group_config
from tests.support.groups.consumer_members import MemberClient
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.consumer.expressions import EXPRESSIONS_MAX
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.consumer.member_size import size_of
from tidelog.protocol.errors import ErrorCode, KafkaError

LIMIT = 4 * 1_048_576


def large_member(name: str, group_id: str = "g") -> MemberClient:
    return MemberClient(name, tuple(f"{index:05}" + "x" * 100 for index in range(2_000)), group_id=group_id)


def test_members_with_large_subscriptions_stay_within_the_memory_limit() -> None:
    coordinator = GroupCoordinatorFixture(group_config(group_max_member_bytes=LIMIT))
    memory = coordinator.coordinator.member_memory
    members = [large_member(f"m{number}") for number in range(3)]
    members[0].heartbeat(coordinator)
    used = memory.used_bytes
    members[1].heartbeat(coordinator)
    assert memory.used_bytes == 2 * used
    with pytest.raises(KafkaError) as error:
        members[2].heartbeat(coordinator)
    assert error.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    for number in range(20):
        try:
            large_member("m", f"g{number}").heartbeat(coordinator)
        except KafkaError as failure:
            assert failure.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert memory.used_bytes <= LIMIT
    members[0].heartbeat(coordinator)
    MemberClient("small", group_id="small").heartbeat(coordinator)


def test_long_racks_and_instance_ids_count_as_memory_of_a_member() -> None:
    for long in (
        ConsumerMember(member_id="m", rack_id="r" * 32_000),
        ConsumerMember(member_id="m", instance_id="i" * 32_000),
    ):
        assert size_of(long) == size_of(ConsumerMember(member_id="m")) + 32_000


def test_the_memory_of_members_that_leave_is_released() -> None:
    coordinator = GroupCoordinatorFixture(group_config(group_max_member_bytes=LIMIT))
    member = large_member("m")
    member.heartbeat(coordinator)
    member.subscribe(("t",), "")
    member.heartbeat(coordinator)
    assert coordinator.coordinator.member_memory.used_bytes < 3_000
    member.leave(coordinator)
    assert coordinator.coordinator.member_memory.used_bytes == 0
    large_member("m").heartbeat(coordinator)
    coordinator.coordinator.resign()
    assert coordinator.coordinator.member_memory.used_bytes == 0


def test_the_topics_of_expressions_count_as_memory_of_their_group() -> None:
    coordinator = GroupCoordinatorFixture(group_config(group_max_member_bytes=LIMIT))
    for number in range(100):
        coordinator.add_partitions(f"topic-{number:03}", 1)
    memory = coordinator.coordinator.member_memory
    member = MemberClient("m", (), "none")
    member.heartbeat(coordinator)
    before = memory.used_bytes
    coordinator.pass_time(10_001)
    member.subscribe((), "t.*c")
    member.heartbeat(coordinator)
    assert memory.used_bytes == before, "no topic matches"
    coordinator.pass_time(10_001)
    member.subscribe((), "to.*")
    member.heartbeat(coordinator)
    assert memory.used_bytes >= before + 100 * (80 + len("topic-000"))
    coordinator.pass_time(10_001)
    member.subscribe((), "none")
    member.heartbeat(coordinator)
    assert memory.used_bytes == before


def test_a_group_with_too_many_expressions_accepts_only_those_that_it_has() -> None:
    coordinator = GroupCoordinatorFixture()
    for number in range(EXPRESSIONS_MAX):
        MemberClient(f"m{number}", (), f"t{number}").heartbeat(coordinator)
    with pytest.raises(KafkaError, match="at most 50 are allowed") as error:
        MemberClient("one-too-many", (), "u").heartbeat(coordinator)
    assert error.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    MemberClient("equal", (), "t0").heartbeat(coordinator)
