"""Heartbeats, sessions that run out, and members that leave."""

from __future__ import annotations

import pytest

from tests.support.groups.coordinator import GroupBench
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import completed


def test_heartbeats_keep_a_session_alive() -> None:
    bench = GroupBench()
    (one,) = bench.stable_group(1)
    for _ in range(20):
        bench.pass_time(9_999)
        assert bench.heartbeat(one, 1) is ErrorCode.NONE
    bench.pass_time(10_000)
    assert bench.heartbeat(one, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.state() == "Empty"


def test_a_commit_is_as_good_as_a_heartbeat() -> None:
    bench = GroupBench()
    (one,) = bench.stable_group(1)
    bench.pass_time(9_000)
    assert bench.commit({("t", 0): 1}, member_id=one, generation=1) == [ErrorCode.NONE]
    bench.pass_time(9_000)
    assert bench.heartbeat(one, 1) is ErrorCode.NONE


def test_a_silent_member_makes_the_others_join_again() -> None:
    bench = GroupBench()
    one, two = bench.stable_group(2)
    bench.pass_time(6_000)
    assert bench.heartbeat(two, 1) is ErrorCode.NONE
    bench.pass_time(4_000)
    assert bench.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(member_id=two)
    assert (again.got.generation_id, again.got.leader) == (2, two)
    assert [m.member_id for m in again.got.members] == [two]
    assert [m.member_id for m in bench.coordinator.administration.describe_group("g", 6).members] == [two]
    assert bench.heartbeat(one, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_may_send_heartbeats_before_they_have_synced() -> None:
    bench = GroupBench()
    one, _ = bench.come_in()
    bench.pass_time(3_000)
    assert bench.heartbeat(one, 1) is ErrorCode.NONE


def test_heartbeats_are_refused_outside_of_the_generation_and_the_group() -> None:
    bench = GroupBench()
    assert bench.heartbeat("m", 1, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert bench.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    (one,) = bench.stable_group(1)
    assert bench.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(one, 0) is ErrorCode.ILLEGAL_GENERATION
    assert bench.heartbeat(one, 2) is ErrorCode.ILLEGAL_GENERATION
    pending = bench.join().got.member_id
    assert bench.heartbeat(pending, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_makes_the_others_join_again() -> None:
    bench = GroupBench()
    one, two = bench.stable_group(2)
    assert bench.leave((one, None)).members[0].error_code == 0
    assert bench.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.join(member_id=two).got.leader == two


def test_the_last_member_to_leave_leaves_an_empty_group_of_the_next_generation() -> None:
    bench = GroupBench()
    one, two = bench.stable_group(2)
    bench.leave((one, None), (two, None))
    assert bench.state() == "Empty"
    bench.pass_time(1_000_000)
    again, join = bench.come_in()
    bench.pass_time(3_000)
    assert (join.got.generation_id, join.got.leader) == (3, again)


def test_a_member_that_leaves_while_others_join_no_longer_holds_them_up() -> None:
    bench = GroupBench()
    one, two = bench.stable_group(2)
    again = bench.join(member_id=one)
    assert again.is_waiting
    bench.leave((two, None))
    assert again.got.generation_id == 2


def test_a_member_that_leaves_while_its_own_join_waits_gets_an_answer() -> None:
    bench = GroupBench()
    one, join = bench.come_in()
    bench.leave((one, None))
    assert (join.error, join.got.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    bench.pass_time(60_000)
    assert bench.state() == "Empty"


def test_a_member_that_was_only_given_an_id_may_leave() -> None:
    bench = GroupBench()
    (one,) = bench.stable_group(1)
    pending = bench.join().got.member_id
    again = bench.join(member_id=one)
    assert again.is_waiting
    assert bench.leave((pending, None)).members[0].error_code == 0
    assert again.got.generation_id == 2


def test_each_member_of_a_leave_request_is_answered_by_itself() -> None:
    bench = GroupBench()
    one, two = bench.stable_group(2)
    answer = bench.leave((one, None), ("stranger", None), (one, None), ("", "no such instance"))
    assert [ErrorCode(m.error_code) for m in answer.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert answer.error_code == 0
    assert bench.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leave_of_unknown_members_changes_nothing() -> None:
    bench = GroupBench()
    bench.stable_group(1)
    bench.leave(("stranger", None))
    assert bench.state() == "Stable"
    assert bench.leave(("m", None), group_id="unknown").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.leave(("m", None), group_id="").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_have_the_one_members_error_at_the_top(version: int) -> None:
    bench = GroupBench()
    (one,) = bench.stable_group(1)
    assert bench.leave(("stranger", None), version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    answer = bench.leave((one, None), version=version)
    assert (answer.error_code, answer.members) == (0, ())
    assert bench.state() == "Empty"


def test_waiting_requests_get_an_error_when_the_partition_moves() -> None:
    bench = GroupBench()
    one, two = bench.stable_group(2)
    _, new = bench.come_in()
    again = bench.join(member_id=one)
    bench.coordinator.resign()
    assert [new.error, again.error] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    assert bench.coordinator.next_deadline_ms() is None
    assert completed(bench.coordinator.administration.list_groups((), ())) == []
    assert bench.heartbeat(two, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_waiting_sync_is_sent_away_when_the_partition_moves() -> None:
    bench = GroupBench()
    bench.come_in()
    two, _ = bench.come_in()
    bench.pass_time(6_000)
    waiting = bench.sync(two, 1)
    bench.coordinator.resign()
    assert waiting.error is ErrorCode.NOT_COORDINATOR


def test_a_reload_knows_the_members_of_the_last_generation_and_starts_their_sessions() -> None:
    bench = GroupBench()
    one, two = bench.stable_group(2, protocols=[("range", b"wishes")])
    other = bench.reloaded()
    assert other.state() == "Stable"
    assert other.sync(two, 1).got.assignment == two.encode()
    described = other.coordinator.administration.describe_group("g", 6)
    assert [(m.member_id, m.client_id, m.client_host, m.member_metadata) for m in described.members] == [
        (one, "c", "/127.0.0.1", b"wishes"),
        (two, "c", "/127.0.0.1", b"wishes"),
    ]
    other.pass_time(9_999)
    assert other.heartbeat(one, 1) is ErrorCode.NONE
    other.pass_time(1)
    assert other.heartbeat(two, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert other.join(member_id=one, protocols=[("range", b"wishes")]).got.leader == one
