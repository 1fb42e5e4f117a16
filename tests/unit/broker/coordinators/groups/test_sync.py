"""SyncGroup: from the end of the joins to a stable group, and failures."""

from __future__ import annotations

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.protocol.errors import ErrorCode


def joined(bench: GroupCoordinatorFixture, size: int = 2) -> list[str]:
    """Members of generation 1 that have not synced yet; the first one leads."""
    members = [bench.come_in()[0] for _ in range(size)]
    bench.pass_time(6_000)
    assert bench.state() == "CompletingRebalance"
    return members


def test_followers_wait_for_the_leaders_assignment() -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    follower = bench.sync(two, 1)
    assert follower.is_waiting
    leader = bench.sync(one, 1, {one: b"for one", two: b"for two"})
    assert (leader.got.assignment, follower.got.assignment) == (b"for one", b"for two")
    assert (leader.got.protocol_type, leader.got.protocol_name) == ("consumer", "range")
    assert bench.state() == "Stable"


def test_a_late_sync_gets_the_assignment_of_the_stable_group() -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    bench.sync(one, 1, {one: b"1", two: b"2"})
    assert bench.state() == "Stable"
    assert bench.sync(two, 1).got.assignment == b"2"


def test_a_member_missing_in_the_assignment_gets_an_empty_one() -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    follower = bench.sync(two, 1)
    bench.sync(one, 1, {one: b"1", "a stranger": b"3"})
    assert (follower.error, follower.got.assignment) == (ErrorCode.NONE, b"")


def test_the_assignment_applies_when_its_record_is_committed() -> None:
    bench = GroupCoordinatorFixture(holds_commits=False)
    one, two = joined(bench)
    bench.holds_commits = True
    follower = bench.sync(two, 1)
    leader = bench.sync(one, 1, {one: b"1", two: b"2"})
    assert follower.is_waiting
    assert leader.is_waiting
    assert bench.state() == "CompletingRebalance"
    bench.commit_all()
    assert [leader.error, follower.error] == [ErrorCode.NONE, ErrorCode.NONE]
    assert bench.state() == "Stable"


def test_a_repeated_sync_of_the_leader_gets_the_first_assignment() -> None:
    bench = GroupCoordinatorFixture()
    (one,) = joined(bench, 1)
    bench.holds_commits = True
    first = bench.sync(one, 1, {one: b"first"})
    second = bench.sync(one, 1, {one: b"second"})
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.commit_all()
    assert second.got.assignment == b"first"
    assert bench.reloaded().sync(one, 1).got.assignment == b"first"


def test_an_assignment_committed_after_the_next_rebalance_began_is_discarded() -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    bench.holds_commits = True
    leader = bench.sync(one, 1, {one: b"1", two: b"2"})
    bench.come_in()
    assert leader.error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.commit_all()
    assert bench.state() == "PreparingRebalance"


@pytest.mark.parametrize(
    ("append_error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_write_of_the_assignment_makes_all_members_rejoin(
    append_error: ErrorCode, told: ErrorCode
) -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    bench.append_error = append_error
    follower = bench.sync(two, 1)
    leader = bench.sync(one, 1, {one: b"1"})
    assert [leader.error, follower.error] == [told, told]
    assert bench.state() == "PreparingRebalance"
    bench.append_error = None
    joins = [bench.join(member_id=one), bench.join(member_id=two)]
    assert [j.got.generation_id for j in joins] == [2, 2]


def test_members_that_do_not_sync_are_removed_after_the_rebalance_timeout() -> None:
    bench = GroupCoordinatorFixture()
    one, two = (bench.come_in(rebalance_ms=20_000, session_ms=60_000)[0] for _ in range(2))
    bench.pass_time(6_000)
    leader = bench.sync(one, 1, {one: b"1", two: b"2"})
    assert leader.error is ErrorCode.NONE
    bench.pass_time(20_000 - 1)
    assert bench.state() == "Stable"
    bench.pass_time(1)
    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(two, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_wait_for_the_leaders_sync_until_the_rebalance_timeout() -> None:
    bench = GroupCoordinatorFixture()
    one, two = (bench.come_in(rebalance_ms=20_000, session_ms=60_000)[0] for _ in range(2))
    bench.pass_time(6_000)
    follower = bench.sync(two, 1)
    bench.pass_time(20_000)
    assert follower.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.heartbeat(one, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = bench.join(member_id=two)
    assert again.got.leader == two


def test_a_waiting_member_need_not_send_heartbeats() -> None:
    bench = GroupCoordinatorFixture()
    one, two = (bench.come_in(session_ms=6_000, rebalance_ms=60_000)[0] for _ in range(2))
    bench.pass_time(6_000)
    follower = bench.sync(two, 1)
    for _ in range(10):
        bench.pass_time(3_000)
        assert bench.heartbeat(one, 1) is ErrorCode.NONE
    bench.sync(one, 1, {one: b"1", two: b"2"})
    assert follower.got.assignment == b"2"
    bench.pass_time(5_999)
    assert bench.heartbeat(two, 1) is ErrorCode.NONE


def test_a_second_sync_of_a_waiting_member_completes_the_first() -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    first, second = bench.sync(two, 1), bench.sync(two, 1)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.sync(one, 1, {two: b"2"})
    assert second.got.assignment == b"2"


def test_a_member_that_leaves_completes_its_waiting_sync() -> None:
    bench = GroupCoordinatorFixture()
    _, two = joined(bench)
    waiting = bench.sync(two, 1)
    bench.leave((two, None))
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unchanged_follower_that_rejoins_gets_the_current_generation() -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    lost = bench.join(member_id=two)
    assert (lost.got.generation_id, lost.got.leader, lost.got.members) == (1, one, ())
    leader = bench.join(member_id=one)
    assert [m.member_id for m in leader.got.members] == [one, two]
    assert bench.state() == "CompletingRebalance"


def test_a_member_with_changed_metadata_in_completing_rebalance_starts_a_rebalance() -> None:
    bench = GroupCoordinatorFixture()
    one, two = joined(bench)
    waiting = bench.sync(two, 1)
    changed = bench.join(member_id=two, protocols=[("range", b"other topics")])
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert changed.is_waiting
    assert bench.join(member_id=one).got.generation_id == 2


def test_syncs_of_unknown_members_and_generations_are_refused() -> None:
    bench = GroupCoordinatorFixture()
    assert bench.sync("m", 1, group_id="").error is ErrorCode.INVALID_GROUP_ID
    assert bench.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    (one,) = bench.stable_group(1)
    assert bench.sync("m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.sync(one, 0).error is ErrorCode.ILLEGAL_GENERATION
    assert bench.sync(one, 1, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync(one, 1, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync(one, 1, protocol_type="consumer", protocol_name="range").error is ErrorCode.NONE
    bench.come_in()
    assert bench.sync(one, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.leave((one, None))
    bench.coordinator.resign()
    assert bench.sync(one, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_with_an_empty_group_is_an_unknown_member() -> None:
    bench = GroupCoordinatorFixture()
    (one,) = bench.stable_group(1)
    bench.leave((one, None))
    assert bench.state() == "Empty"
    assert bench.sync(one, 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(one, 2) is ErrorCode.UNKNOWN_MEMBER_ID
