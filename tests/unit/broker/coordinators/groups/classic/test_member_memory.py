"""The memory of members is bounded for a node and for each group."""

from __future__ import annotations

from tests.support.configs import group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.classic.member_memory import PROTOCOL_BYTES
from tidelog.broker.coordinators.groups.join import PROTOCOLS_MAX
from tidelog.protocol.errors import ErrorCode

MIB = 1_048_576
LIMIT = 16 * MIB


def fixture_with_limit() -> GroupCoordinatorFixture:
    return GroupCoordinatorFixture(group_config(group_max_member_bytes=LIMIT))


def metadata(size: int) -> tuple[tuple[str, bytes]]:
    return (("range", bytes(size)),)


def test_joins_with_large_metadata_stay_within_the_memory_limit() -> None:
    """Before, 400 JoinGroups of 1 MB used 810 MB until their sessions ended."""
    fixture = fixture_with_limit()
    joins = [fixture.join(f"g{number}", version=3, protocols=metadata(MIB)) for number in range(400)]
    waiting = [join for join in joins if join.is_waiting]
    refused = {join.error for join in joins if not join.is_waiting}
    memory = fixture.coordinator.member_memory
    assert refused == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert 10 <= len(waiting) < 16
    assert memory.used_bytes <= LIMIT
    assert len(fixture.coordinator._groups) == len(waiting), "a group that could not begin leaves nothing"
    small = fixture.join("small", version=3, protocols=metadata(10_000))
    assert small.is_waiting, "small groups find room when large ones do not"


def test_one_group_has_a_quarter_of_the_limit() -> None:
    fixture = fixture_with_limit()
    joins = [fixture.join(version=3, protocols=metadata(MIB)) for _ in range(6)]
    assert [join.is_waiting for join in joins] == [True] * 3 + [False] * 3
    assert {join.error for join in joins[3:]} == {ErrorCode.GROUP_MAX_SIZE_REACHED}


def test_memory_of_removed_members_is_available_to_others() -> None:
    fixture = fixture_with_limit()
    for _ in range(3):
        fixture.join(version=3, protocols=metadata(MIB))
    assert not fixture.join(version=3, protocols=metadata(MIB)).is_waiting
    fixture.pass_time(300_000)
    assert fixture.state() == "Empty"
    assert fixture.coordinator.member_memory.used_bytes == 0
    assert fixture.join(version=3, protocols=metadata(MIB)).is_waiting


def test_a_member_may_replace_its_own_metadata_when_the_group_is_full() -> None:
    fixture = fixture_with_limit()
    members = [fixture.join(version=3, protocols=metadata(MIB)) for _ in range(3)]
    fixture.pass_time(6_000)
    member_id = members[0].reply.member_id
    assert fixture.join(member_id=member_id, protocols=metadata(MIB - 1)).is_waiting


def test_pending_member_ids_count_until_they_expire() -> None:
    fixture = fixture_with_limit()
    for _ in range(100):
        fixture.join()
    assert fixture.coordinator.member_memory.used_bytes >= 100_000
    fixture.pass_time(10_001)
    assert fixture.coordinator.member_memory.used_bytes == 0


def test_a_coordinator_that_resigns_releases_all_memory() -> None:
    fixture = fixture_with_limit()
    for _ in range(3):
        fixture.join(version=3, protocols=metadata(MIB))
    fixture.coordinator.resign()
    assert fixture.coordinator.member_memory.used_bytes == 0


def test_members_with_many_small_protocols_stay_within_the_limit() -> None:
    """A protocol without metadata takes 250 bytes; before this limit, 100,000 of them used 190 MiB."""
    fixture = fixture_with_limit()
    protocols = tuple((f"protocol-{number}", b"x") for number in range(PROTOCOLS_MAX))
    count = 2 * LIMIT // (PROTOCOLS_MAX * PROTOCOL_BYTES)
    joins = [fixture.join(f"g{number}", version=3, protocols=protocols) for number in range(count)]
    assert {join.error for join in joins if not join.is_waiting} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert fixture.coordinator.member_memory.used_bytes <= LIMIT
