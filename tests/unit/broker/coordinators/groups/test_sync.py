"""SyncGroup: from the end of the joins to a stable group, and failures."""

from __future__ import annotations

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.protocol.errors import ErrorCode


def join_members(fixture: GroupCoordinatorFixture, size: int = 2) -> list[str]:
    """Members of generation 1 that have not synced yet; the first one leads."""
    members = [fixture.join_as_new_member()[0] for _ in range(size)]
    fixture.pass_time(6_000)
    assert fixture.state() == "CompletingRebalance"
    return members


def test_followers_wait_for_the_leaders_assignment() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    follower = fixture.sync(two, 1)
    assert follower.is_waiting
    leader = fixture.sync(one, 1, {one: b"for one", two: b"for two"})
    assert (leader.reply.assignment, follower.reply.assignment) == (b"for one", b"for two")
    assert (leader.reply.protocol_type, leader.reply.protocol_name) == ("consumer", "range")
    assert fixture.state() == "Stable"


def test_a_late_sync_gets_the_assignment_of_the_stable_group() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    fixture.sync(one, 1, {one: b"1", two: b"2"})
    assert fixture.state() == "Stable"
    assert fixture.sync(two, 1).reply.assignment == b"2"


def test_a_member_missing_in_the_assignment_gets_an_empty_one() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    follower = fixture.sync(two, 1)
    fixture.sync(one, 1, {one: b"1", "a stranger": b"3"})
    assert (follower.error, follower.reply.assignment) == (ErrorCode.NONE, b"")


def test_the_assignment_applies_when_its_record_is_committed() -> None:
    fixture = GroupCoordinatorFixture(holds_commits=False)
    one, two = join_members(fixture)
    fixture.holds_commits = True
    follower = fixture.sync(two, 1)
    leader = fixture.sync(one, 1, {one: b"1", two: b"2"})
    assert follower.is_waiting
    assert leader.is_waiting
    assert fixture.state() == "CompletingRebalance"
    fixture.commit_all()
    assert [leader.error, follower.error] == [ErrorCode.NONE, ErrorCode.NONE]
    assert fixture.state() == "Stable"


def test_a_repeated_sync_of_the_leader_gets_the_first_assignment() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = join_members(fixture, 1)
    fixture.holds_commits = True
    first = fixture.sync(one, 1, {one: b"first"})
    second = fixture.sync(one, 1, {one: b"second"})
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    fixture.commit_all()
    assert second.reply.assignment == b"first"
    assert fixture.reload().sync(one, 1).reply.assignment == b"first"


def test_an_assignment_committed_after_the_next_rebalance_began_is_discarded() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    fixture.holds_commits = True
    leader = fixture.sync(one, 1, {one: b"1", two: b"2"})
    fixture.join_as_new_member()
    assert leader.error is ErrorCode.REBALANCE_IN_PROGRESS
    fixture.commit_all()
    assert fixture.state() == "PreparingRebalance"


@pytest.mark.parametrize(
    ("append_error", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_write_of_the_assignment_makes_all_members_rejoin(
    append_error: ErrorCode, expected: ErrorCode
) -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    fixture.append_error = append_error
    follower = fixture.sync(two, 1)
    leader = fixture.sync(one, 1, {one: b"1"})
    assert [leader.error, follower.error] == [expected, expected]
    assert fixture.state() == "PreparingRebalance"
    fixture.append_error = None
    joins = [fixture.join(member_id=one), fixture.join(member_id=two)]
    assert [j.reply.generation_id for j in joins] == [2, 2]


def test_members_that_do_not_sync_are_removed_after_the_rebalance_timeout() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = (fixture.join_as_new_member(rebalance_ms=20_000, session_ms=60_000)[0] for _ in range(2))
    fixture.pass_time(6_000)
    leader = fixture.sync(one, 1, {one: b"1", two: b"2"})
    assert leader.error is ErrorCode.NONE
    fixture.pass_time(20_000 - 1)
    assert fixture.state() == "Stable"
    fixture.pass_time(1)
    assert fixture.state() == "PreparingRebalance"
    assert fixture.heartbeat(two, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_wait_for_the_leaders_sync_until_the_rebalance_timeout() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = (fixture.join_as_new_member(rebalance_ms=20_000, session_ms=60_000)[0] for _ in range(2))
    fixture.pass_time(6_000)
    follower = fixture.sync(two, 1)
    fixture.pass_time(20_000)
    assert follower.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert fixture.heartbeat(one, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = fixture.join(member_id=two)
    assert again.reply.leader == two


def test_a_waiting_member_need_not_send_heartbeats() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = (fixture.join_as_new_member(session_ms=6_000, rebalance_ms=60_000)[0] for _ in range(2))
    fixture.pass_time(6_000)
    follower = fixture.sync(two, 1)
    for _ in range(10):
        fixture.pass_time(3_000)
        assert fixture.heartbeat(one, 1) is ErrorCode.NONE
    fixture.sync(one, 1, {one: b"1", two: b"2"})
    assert follower.reply.assignment == b"2"
    fixture.pass_time(5_999)
    assert fixture.heartbeat(two, 1) is ErrorCode.NONE


def test_a_second_sync_of_a_waiting_member_completes_the_first() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    first, second = fixture.sync(two, 1), fixture.sync(two, 1)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    fixture.sync(one, 1, {two: b"2"})
    assert second.reply.assignment == b"2"


def test_a_member_that_leaves_completes_its_waiting_sync() -> None:
    fixture = GroupCoordinatorFixture()
    _, two = join_members(fixture)
    waiting = fixture.sync(two, 1)
    fixture.leave((two, None))
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unchanged_follower_that_rejoins_gets_the_current_generation() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    lost = fixture.join(member_id=two)
    assert (lost.reply.generation_id, lost.reply.leader, lost.reply.members) == (1, one, ())
    leader = fixture.join(member_id=one)
    assert [m.member_id for m in leader.reply.members] == [one, two]
    assert fixture.state() == "CompletingRebalance"


def test_a_member_with_changed_metadata_in_completing_rebalance_starts_a_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    one, two = join_members(fixture)
    waiting = fixture.sync(two, 1)
    changed = fixture.join(member_id=two, protocols=[("range", b"other topics")])
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert changed.is_waiting
    assert fixture.join(member_id=one).reply.generation_id == 2


def test_syncs_of_unknown_members_and_generations_are_refused() -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.sync("m", 1, group_id="").error is ErrorCode.INVALID_GROUP_ID
    assert fixture.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    (one,) = fixture.stable_group(1)
    assert fixture.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.sync(one, 0).error is ErrorCode.ILLEGAL_GENERATION
    assert fixture.sync(one, 1, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert fixture.sync(one, 1, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert fixture.sync(one, 1, protocol_type="consumer", protocol_name="range").error is ErrorCode.NONE
    fixture.join_as_new_member()
    assert fixture.sync(one, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    fixture.leave((one, None))
    fixture.coordinator.resign()
    assert fixture.sync(one, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_with_an_empty_group_is_an_unknown_member() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    fixture.leave((one, None))
    assert fixture.state() == "Empty"
    assert fixture.sync(one, 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.heartbeat(one, 2) is ErrorCode.UNKNOWN_MEMBER_ID
