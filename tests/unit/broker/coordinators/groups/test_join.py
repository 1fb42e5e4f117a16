"""JoinGroup: member ids, waiting, leaders, protocols, and errors."""

from __future__ import annotations

import pytest

from tests.support.configs import group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.join import PROTOCOLS_MAX
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import run_steps


def test_the_first_member_gets_an_id_and_leads_after_the_initial_delay() -> None:
    fixture = GroupCoordinatorFixture()
    first = fixture.join()
    assert (first.error, first.reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-1")
    assert fixture.state() == "Empty"
    join = fixture.join(member_id="c-1", protocols=(("range", b"wishes"),))
    assert fixture.state() == "PreparingRebalance"
    fixture.pass_time(2_999)
    assert join.is_waiting
    fixture.pass_time(1)
    assert join.error is ErrorCode.NONE
    assert (join.reply.generation_id, join.reply.leader, join.reply.member_id) == (1, "c-1", "c-1")
    assert (join.reply.protocol_type, join.reply.protocol_name) == ("consumer", "range")
    assert [(m.member_id, m.metadata) for m in join.reply.members] == [("c-1", b"wishes")]
    assert fixture.state() == "CompletingRebalance"


def test_an_older_version_joins_without_member_id_required() -> None:
    fixture = GroupCoordinatorFixture()
    join = fixture.join(version=3)
    assert join.is_waiting
    fixture.pass_time(3_000)
    assert (join.error, join.reply.member_id) == (ErrorCode.NONE, "c-1")


def test_only_the_leader_gets_the_list_of_members() -> None:
    fixture = GroupCoordinatorFixture()
    _, leader = fixture.join_as_new_member()
    _, follower = fixture.join_as_new_member()
    fixture.pass_time(6_000)
    assert [m.member_id for m in leader.reply.members] == ["c-1", "c-2"]
    assert (follower.reply.members, follower.reply.leader) == ((), "c-1")


def test_the_initial_delay_restarts_for_new_members_up_to_the_rebalance_timeout() -> None:
    fixture = GroupCoordinatorFixture()
    joins = [fixture.join_as_new_member(rebalance_ms=8_000)[1]]
    for _ in range(2):
        fixture.pass_time(2_000)
        joins.append(fixture.join_as_new_member(rebalance_ms=8_000)[1])
        fixture.pass_time(1_000)
    fixture.pass_time(1_999)
    assert all(join.is_waiting for join in joins)
    joins.append(fixture.join_as_new_member(rebalance_ms=8_000)[1])
    fixture.pass_time(1)
    assert all(join.error is ErrorCode.NONE for join in joins)


def test_the_initial_delay_is_not_extended_without_new_members() -> None:
    fixture = GroupCoordinatorFixture()
    _, join = fixture.join_as_new_member()
    fixture.pass_time(3_000)
    assert join.error is ErrorCode.NONE


def test_without_an_initial_delay_the_join_completes_at_once() -> None:
    fixture = GroupCoordinatorFixture(group_config(group_initial_rebalance_delay_ms=0))
    _, join = fixture.join_as_new_member()
    fixture.pass_time(0)
    assert join.error is ErrorCode.NONE


def test_a_new_member_of_a_stable_group_starts_a_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group()
    three, join = fixture.join_as_new_member()
    assert fixture.state() == "PreparingRebalance"
    assert fixture.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    joins = [join, fixture.join(member_id=two)]
    assert all(j.is_waiting for j in joins)
    joins.append(fixture.join(member_id=one))
    assert [j.reply.generation_id for j in joins] == [2, 2, 2]
    assert {j.reply.leader for j in joins} == {one}
    assert [m.member_id for m in joins[2].reply.members] == [one, two, three]


def test_members_that_do_not_rejoin_in_time_are_removed() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(rebalance_ms=5_000)
    _, join = fixture.join_as_new_member(rebalance_ms=5_000)
    again = fixture.join(member_id=two, rebalance_ms=5_000)
    fixture.pass_time(4_999)
    assert again.is_waiting
    fixture.pass_time(1)
    assert (again.reply.generation_id, again.reply.leader) == (2, two)
    assert join.reply.leader == two
    assert fixture.heartbeat(one, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_is_awaited_until_its_session_expires() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    pending = fixture.join(session_ms=7_000).reply.member_id
    _, two = fixture.join_as_new_member()
    again = fixture.join(member_id=one)
    assert again.is_waiting
    fixture.pass_time(7_000)
    assert (again.error, two.error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert fixture.join(member_id=pending).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_cannot_join_as_a_static_one() -> None:
    fixture = GroupCoordinatorFixture()
    member_id = fixture.join().reply.member_id
    assert fixture.join(member_id=member_id, instance="i").error is ErrorCode.INVALID_REQUEST


def test_a_new_member_that_waits_for_five_minutes_gets_unknown_member_id() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.stable_group(rebalance_ms=1_000_000, session_ms=1_800_000)
    _, join = fixture.join_as_new_member(rebalance_ms=1_000_000, session_ms=1_800_000)
    fixture.pass_time(299_999)
    assert join.is_waiting
    fixture.pass_time(1)
    assert (join.error, join.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_a_second_join_of_a_waiting_member_completes_the_first() -> None:
    fixture = GroupCoordinatorFixture()
    member_id, first = fixture.join_as_new_member()
    second = fixture.join(member_id=member_id)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    fixture.pass_time(3_000)
    assert second.error is ErrorCode.NONE


def test_the_protocol_with_most_votes_among_common_ones_is_selected() -> None:
    fixture = GroupCoordinatorFixture()
    wishes = [("a", "b", "c"), ("c", "b"), ("b", "c")]
    joins = [
        fixture.join_as_new_member(protocols=[(name, name.encode()) for name in names])[1] for names in wishes
    ]
    fixture.pass_time(6_000)
    assert {join.reply.protocol_name for join in joins} == {"b"}
    assert [m.metadata for m in joins[0].reply.members] == [b"b", b"b", b"b"]


def test_a_repeated_protocol_counts_once() -> None:
    fixture = GroupCoordinatorFixture()
    _, join = fixture.join_as_new_member(protocols=[("range", b"1"), ("range", b"2")])
    fixture.pass_time(3_000)
    assert (join.reply.protocol_name, join.reply.members[0].metadata) == ("range", b"1")


@pytest.mark.parametrize(
    "options",
    [
        {"protocols": [("sticky", b"")]},
        {"protocols": []},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ],
)
def test_a_member_without_a_common_protocol_is_refused(options: dict[str, object]) -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    assert fixture.join(**options).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    refused = fixture.join(member_id=one, **options)  # type: ignore[arg-type]
    assert (refused.error, refused.reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, one)
    assert fixture.state() == "Stable"


@pytest.mark.parametrize("options", [{"protocols": []}, {"protocol_type": ""}])
def test_a_member_without_protocols_creates_no_group(options: dict[str, object]) -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.join(**options).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    assert run_steps(fixture.coordinator.administration.list_groups((), ())) == []
    assert fixture.log == []


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_out_of_bounds_is_refused(session_ms: int) -> None:
    assert GroupCoordinatorFixture().join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_needs_an_id() -> None:
    assert GroupCoordinatorFixture().join("").error is ErrorCode.INVALID_GROUP_ID


def test_a_member_id_that_was_not_assigned_is_unknown() -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.join(member_id="invented").error is ErrorCode.UNKNOWN_MEMBER_ID
    fixture.stable_group(1)
    refused = fixture.join(member_id="invented")
    assert (refused.error, refused.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "invented")


def test_a_full_group_accepts_only_existing_members() -> None:
    fixture = GroupCoordinatorFixture(group_config(group_max_size=2))
    one, two = fixture.stable_group(2)
    refused = fixture.join()
    assert (refused.error, refused.reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    joins = [fixture.join(member_id=one), fixture.join(member_id=two)]
    assert [j.error for j in joins] == [ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize("version", [3, 9])
def test_waiting_members_count_towards_the_maximum_size(version: int) -> None:
    fixture = GroupCoordinatorFixture(group_config(group_max_size=3))
    # From version 4 on each of them is given an id first; as in Kafka the ids alone do not count.
    member_ids = ["" if version < 4 else fixture.join(version=version).reply.member_id for _ in range(10)]
    joins = [fixture.join(member_id=member_id, version=version) for member_id in member_ids]
    assert [join.is_waiting for join in joins] == [True] * 3 + [False] * 7
    assert {join.error for join in joins[3:]} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    fixture.pass_time(6_000)
    assert {join.error for join in joins[:3]} == {ErrorCode.NONE}


def test_pending_members_are_refused_when_the_group_became_full() -> None:
    fixture = GroupCoordinatorFixture(group_config(group_max_size=1))
    first = fixture.join().reply.member_id
    second = fixture.join().reply.member_id
    join = fixture.join(member_id=first)
    assert fixture.join(member_id=second).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    fixture.pass_time(3_000)
    assert join.error is ErrorCode.NONE
    assert fixture.join(member_id=second).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_after_a_reload_a_lower_maximum_size_removes_the_last_members_to_rejoin() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2)
    smaller = fixture.reload(group_config(group_max_size=1))
    assert smaller.state() == "PreparingRebalance"
    assert smaller.commit({("t", 0): 5}, member_id=two, generation=1) == [ErrorCode.NONE]
    join = smaller.join(member_id=two)
    assert smaller.join(member_id=one).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    smaller.pass_time(60_000)
    assert (join.error, join.reply.leader) == (ErrorCode.NONE, two)


def test_a_failed_write_of_a_new_group_removes_it() -> None:
    fixture = GroupCoordinatorFixture(append_error=ErrorCode.NOT_ENOUGH_REPLICAS)
    join = fixture.join(version=3)
    assert join.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert run_steps(fixture.coordinator.administration.list_groups((), ())) == []
    assert fixture.coordinator.next_deadline_ms() is None
    fixture.append_error = None
    assert fixture.stable_group(1)


def test_a_very_long_client_id_gives_a_valid_member_id() -> None:
    fixture = GroupCoordinatorFixture()
    member_id, _ = fixture.join_as_new_member(client="x" * 32_000)
    fixture.pass_time(3_000)
    assert len(member_id) < 300
    fixture.sync(member_id, 1, {})
    assert fixture.reload().heartbeat(member_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("version", [3, 9])
def test_a_member_with_more_protocols_than_allowed_is_rejected_and_leaves_no_group(version: int) -> None:
    fixture = GroupCoordinatorFixture()
    protocols = [(f"protocol-{number}", b"") for number in range(PROTOCOLS_MAX + 1)]
    assert fixture.join(version=version, protocols=protocols).error is ErrorCode.INVALID_REQUEST
    assert not fixture.coordinator._groups
    assert fixture.join(version=3, protocols=protocols[1:]).is_waiting
