"""Heartbeats, session timeouts, and LeaveGroup."""

from __future__ import annotations

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import run_steps


def test_heartbeats_keep_a_session_alive() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    for _ in range(20):
        fixture.pass_time(9_999)
        assert fixture.heartbeat(one, 1) is ErrorCode.NONE
    fixture.pass_time(10_000)
    assert fixture.heartbeat(one, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.state() == "Empty"


def test_a_commit_extends_the_session() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    fixture.pass_time(9_000)
    assert fixture.commit({("t", 0): 1}, member_id=one, generation=1) == [ErrorCode.NONE]
    fixture.pass_time(9_000)
    assert fixture.heartbeat(one, 1) is ErrorCode.NONE


def test_an_expired_session_starts_a_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2)
    fixture.pass_time(6_000)
    assert fixture.heartbeat(two, 1) is ErrorCode.NONE
    fixture.pass_time(4_000)
    assert fixture.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = fixture.join(member_id=two)
    assert (again.reply.generation_id, again.reply.leader) == (2, two)
    assert [m.member_id for m in again.reply.members] == [two]
    assert [m.member_id for m in fixture.coordinator.administration.describe_group("g", 6).members] == [two]
    assert fixture.heartbeat(one, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_accepted_before_the_sync() -> None:
    fixture = GroupCoordinatorFixture()
    one, _ = fixture.join_as_new_member()
    fixture.pass_time(3_000)
    assert fixture.heartbeat(one, 1) is ErrorCode.NONE


def test_heartbeats_of_unknown_members_and_generations_are_refused() -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.heartbeat("m", 1, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert fixture.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    (one,) = fixture.stable_group(1)
    assert fixture.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.heartbeat(one, 0) is ErrorCode.ILLEGAL_GENERATION
    assert fixture.heartbeat(one, 2) is ErrorCode.ILLEGAL_GENERATION
    pending = fixture.join().reply.member_id
    assert fixture.heartbeat(pending, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leaving_member_starts_a_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2)
    assert fixture.leave((one, None)).members[0].error_code == 0
    assert fixture.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert fixture.join(member_id=two).reply.leader == two


def test_the_last_member_to_leave_leaves_an_empty_group_of_the_next_generation() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2)
    fixture.leave((one, None), (two, None))
    assert fixture.state() == "Empty"
    fixture.pass_time(1_000_000)
    again, join = fixture.join_as_new_member()
    fixture.pass_time(3_000)
    assert (join.reply.generation_id, join.reply.leader) == (3, again)


def test_a_member_that_leaves_during_a_rebalance_is_not_awaited() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2)
    again = fixture.join(member_id=one)
    assert again.is_waiting
    fixture.leave((two, None))
    assert again.reply.generation_id == 2


def test_a_member_that_leaves_completes_its_waiting_join() -> None:
    fixture = GroupCoordinatorFixture()
    one, join = fixture.join_as_new_member()
    fixture.leave((one, None))
    assert (join.error, join.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    fixture.pass_time(60_000)
    assert fixture.state() == "Empty"


def test_a_pending_member_may_leave() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    pending = fixture.join().reply.member_id
    again = fixture.join(member_id=one)
    assert again.is_waiting
    assert fixture.leave((pending, None)).members[0].error_code == 0
    assert again.reply.generation_id == 2


def test_each_member_of_a_leave_request_has_its_own_result() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2)
    response = fixture.leave((one, None), ("stranger", None), (one, None), ("", "no such instance"))
    assert [ErrorCode(m.error_code) for m in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert response.error_code == 0
    assert fixture.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leave_of_unknown_members_changes_nothing() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.stable_group(1)
    fixture.leave(("stranger", None))
    assert fixture.state() == "Stable"
    assert fixture.leave(("m", None), group_id="unknown").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.leave(("m", None), group_id="").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_versions_have_the_error_of_the_member_at_the_top_level(version: int) -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    assert fixture.leave(("stranger", None), version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    response = fixture.leave((one, None), version=version)
    assert (response.error_code, response.members) == (0, ())
    assert fixture.state() == "Empty"


def test_waiting_requests_get_an_error_when_the_partition_moves() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2)
    _, new = fixture.join_as_new_member()
    again = fixture.join(member_id=one)
    fixture.coordinator.resign()
    assert [new.error, again.error] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    assert fixture.coordinator.next_deadline_ms() is None
    assert run_steps(fixture.coordinator.administration.list_groups((), ())) == []
    assert fixture.heartbeat(two, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_waiting_sync_gets_not_coordinator_when_the_partition_moves() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.join_as_new_member()
    two, _ = fixture.join_as_new_member()
    fixture.pass_time(6_000)
    waiting = fixture.sync(two, 1)
    fixture.coordinator.resign()
    assert waiting.error is ErrorCode.NOT_COORDINATOR


def test_a_reload_restores_members_and_starts_their_sessions() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = fixture.stable_group(2, protocols=[("range", b"wishes")])
    other = fixture.reload()
    assert other.state() == "Stable"
    assert other.sync(two, 1).reply.assignment == two.encode()
    described = other.coordinator.administration.describe_group("g", 6)
    assert [(m.member_id, m.client_id, m.client_host, m.member_metadata) for m in described.members] == [
        (one, "c", "/127.0.0.1", b"wishes"),
        (two, "c", "/127.0.0.1", b"wishes"),
    ]
    other.pass_time(9_999)
    assert other.heartbeat(one, 1) is ErrorCode.NONE
    other.pass_time(1)
    assert other.heartbeat(two, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert other.join(member_id=one, protocols=[("range", b"wishes")]).reply.leader == one
