"""The join cases of "Kafka internals", chapter 6 (figures 6-18 to 6-20), which the project was created from.

The coordinator described there responds at once to a member of a stable group that changed nothing. The
first member that changes something starts the rebalance, and all later members wait.
"""

from __future__ import annotations

from tests.support.groups.coordinator import GroupCoordinatorFixture, PendingReply
from tidelog.protocol.errors import ErrorCode


def generation(join: PendingReply) -> int:
    assert join.error is ErrorCode.NONE
    return int(join.reply.generation_id)


def test_case_1_first_rebalance_the_first_member_leads_and_all_joins_complete_together() -> None:
    fixture = GroupCoordinatorFixture()
    first, join = fixture.join_as_new_member()
    joins = [join, *(fixture.join_as_new_member()[1] for _ in range(2))]
    assert all(j.is_waiting for j in joins)
    fixture.pass_time(6_000)
    assert [generation(j) for j in joins] == [1, 1, 1]
    assert {j.reply.leader for j in joins} == {first}


def test_case_2_later_rebalance_the_leader_joins_first_and_all_wait_for_all() -> None:
    fixture = GroupCoordinatorFixture()
    members = fixture.stable_group(3)
    joins = []
    for member in members[:-1]:
        joins.append(fixture.join(member_id=member))
        assert fixture.state() == "PreparingRebalance"
        assert all(j.is_waiting for j in joins)
    joins.append(fixture.join(member_id=members[-1]))
    assert [generation(j) for j in joins] == [2, 2, 2]
    assert joins[0].reply.leader == members[0]


def test_case_3_followers_that_rejoin_before_the_leader_complete_at_once() -> None:
    fixture = GroupCoordinatorFixture()
    leader, before_1, before_2, after = fixture.stable_group(4)
    for follower in (before_1, before_2):
        assert generation(fixture.join(member_id=follower)) == 1
        assert fixture.state() == "Stable"
    leaders = fixture.join(member_id=leader)
    late = fixture.join(member_id=after)
    assert leaders.is_waiting
    assert late.is_waiting
    joins = [leaders, late, *(fixture.join(member_id=follower) for follower in (before_1, before_2))]
    assert [generation(j) for j in joins] == [2, 2, 2, 2]


def test_case_4_a_new_member_joins_first_and_all_wait_while_the_leader_stays_leader() -> None:
    fixture = GroupCoordinatorFixture()
    leader, follower = fixture.stable_group(2)
    newcomer, join = fixture.join_as_new_member()
    assert fixture.state() == "PreparingRebalance"
    joins = [join, fixture.join(member_id=follower)]
    assert all(j.is_waiting for j in joins)
    joins.append(fixture.join(member_id=leader))
    assert [generation(j) for j in joins] == [2, 2, 2]
    assert {j.reply.leader for j in joins} == {leader}
    assert newcomer in [m.member_id for m in joins[2].reply.members]


def test_the_first_change_starts_the_rebalance_and_its_deadline() -> None:
    fixture = GroupCoordinatorFixture()
    leader, follower = fixture.stable_group(2, rebalance_ms=20_000, session_ms=30_000)
    first = fixture.join(member_id=leader, rebalance_ms=20_000, session_ms=30_000)
    fixture.pass_time(12_000)
    newcomer, second = fixture.join_as_new_member(rebalance_ms=20_000, session_ms=30_000)
    fixture.pass_time(7_999)
    assert first.is_waiting
    assert second.is_waiting
    fixture.pass_time(1)
    assert [generation(first), generation(second)] == [2, 2]
    assert fixture.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.heartbeat(newcomer, 2) is ErrorCode.NONE


def test_an_unknown_member_id_is_refused() -> None:
    fixture = GroupCoordinatorFixture()
    fixture.stable_group(1)
    assert fixture.join(member_id="of another life").error is ErrorCode.UNKNOWN_MEMBER_ID
