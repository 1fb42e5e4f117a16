"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.administration import filter_of
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import run_steps


def list_groups(
    fixture: GroupCoordinatorFixture, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> dict[str, str]:
    filters = (run_steps(filter_of(names)) for names in (states, types))
    return {
        group.group_id: group.group_state
        for group in run_steps(fixture.coordinator.administration.list_groups(*filters))
    }


def with_some_groups() -> GroupCoordinatorFixture:
    fixture = GroupCoordinatorFixture()
    fixture.stable_group(1)
    fixture.commit({("t", 0): 1}, group_id="simple")
    fixture.join_as_new_member("young")
    return fixture


def test_groups_are_listed_with_state_and_type() -> None:
    fixture = with_some_groups()
    assert list_groups(fixture) == {"g": "Stable", "simple": "Empty", "young": "PreparingRebalance"}
    by_id = {
        group.group_id: group for group in run_steps(fixture.coordinator.administration.list_groups((), ()))
    }
    assert {group.group_type for group in by_id.values()} == {"classic"}
    assert (by_id["g"].protocol_type, by_id["simple"].protocol_type) == ("consumer", "")


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (("Stable",), (), {"g"}),
        ((" stable ", "EMPTY"), (), {"g", "simple"}),
        (("no such state",), (), set()),
        ((), ("classic",), {"g", "simple", "young"}),
        ((), ("Consumer", "CLASSIC"), {"g", "simple", "young"}),
        ((), ("consumer",), set()),
        (("Empty",), ("classic",), {"simple"}),
    ],
)
def test_groups_are_filtered_by_state_and_type(
    states: tuple[str, ...], types: tuple[str, ...], expected: set[str]
) -> None:
    assert set(list_groups(with_some_groups(), states, types)) == expected


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2, protocols=[("range", b"wishes")])
    group = fixture.coordinator.administration.describe_group("g", 6)
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    assert [(m.member_id, m.member_metadata, m.member_assignment) for m in group.members] == [
        (one, b"wishes", one.encode()),
        (two, b"wishes", two.encode()),
    ]


def test_a_rebalancing_group_is_described_without_metadata() -> None:
    fixture = GroupCoordinatorFixture()
    _, two = fixture.stable_group(2, protocols=[("range", b"wishes")])
    fixture.leave((two, None))
    group = fixture.coordinator.administration.describe_group("g", 6)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [m.member_metadata for m in group.members] == [b""]


def test_an_unknown_group_is_dead_and_from_version_6_on_an_error() -> None:
    fixture = GroupCoordinatorFixture()
    old, new = (fixture.coordinator.administration.describe_group("g", version) for version in (5, 6))
    assert (old.group_state, old.error_code, old.error_message) == ("Dead", 0, None)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group g not found."


def test_only_known_groups_without_members_are_deleted_with_their_offsets() -> None:
    fixture = with_some_groups()
    results = fixture.finish(
        fixture.coordinator.administration.delete_groups(("g", "simple", "young", "unknown", "simple"))
    )
    assert {result.group_id: ErrorCode(result.error_code) for result in results} == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "young": ErrorCode.NON_EMPTY_GROUP,
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert "simple" not in list_groups(fixture)
    assert fixture.offsets("simple") == {}
    again = fixture.reload()
    assert "simple" not in list_groups(again)
    assert again.offsets("simple") == {}


def test_a_deleted_group_can_be_created_again() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    pending = fixture.join(session_ms=100_000).reply.member_id
    fixture.leave((one, None))
    fixture.pass_time(60_000)
    assert fixture.state() == "Empty"
    fixture.finish(fixture.coordinator.administration.delete_groups(("g",)))
    assert fixture.coordinator.next_deadline_ms() is None
    assert fixture.join(member_id=pending).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.stable_group(1)
