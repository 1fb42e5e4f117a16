"""Static members across restarts (KIP-345, KIP-814)."""

from __future__ import annotations

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.protocol.errors import ErrorCode


def form_group(fixture: GroupCoordinatorFixture, *instances: str, **options: object) -> dict[str, str]:
    """Form a stable group of static members, the first of which leads it; return member ids by instance."""
    joins = [fixture.join(instance=instance, **options) for instance in instances]  # type: ignore[arg-type]
    fixture.pass_time(6_000)
    members = [join.reply.member_id for join in joins]
    fixture.sync_all(members, 1)
    return dict(zip(instances, members, strict=True))


def test_a_static_member_joins_with_one_request() -> None:
    fixture = GroupCoordinatorFixture()
    join = fixture.join(instance="i")
    fixture.pass_time(3_000)
    assert (join.error, join.reply.member_id) == (ErrorCode.NONE, "i-1")
    assert join.reply.members[0].group_instance_id == "i"


def test_a_restarted_static_follower_gets_its_assignment_without_a_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    back = fixture.join(instance="b")
    assert back.error is ErrorCode.NONE
    assert (back.reply.generation_id, back.reply.leader, back.reply.members) == (1, ids["a"], ())
    assert not back.reply.skip_assignment
    assert back.reply.member_id != ids["b"]
    assert fixture.state() == "Stable"
    assert fixture.sync(back.reply.member_id, 1, instance="b").reply.assignment == ids["b"].encode()
    assert fixture.heartbeat(ids["a"], 1) is ErrorCode.NONE


def test_a_restarted_static_leader_gets_skip_assignment() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    back = fixture.join(instance="a", version=9)
    assert back.reply.skip_assignment
    assert back.reply.leader == back.reply.member_id
    assert {m.member_id for m in back.reply.members} == {back.reply.member_id, ids["b"]}


def test_a_restarted_static_leader_of_an_older_version_gets_its_previous_id_as_leader() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    back = fixture.join(instance="a", version=8)
    assert (back.reply.leader, back.reply.members, back.reply.skip_assignment) == (ids["a"], (), False)
    assert fixture.sync(back.reply.member_id, 1, instance="a").reply.assignment == ids["a"].encode()


def test_the_new_member_id_survives_a_reload() -> None:
    fixture = GroupCoordinatorFixture()
    form_group(fixture, "a")
    back = fixture.join(instance="a").reply.member_id
    other = fixture.reload()
    assert other.heartbeat(back, 1, instance="a") is ErrorCode.NONE


def test_the_previous_incarnation_is_fenced() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    fixture.join(instance="b")
    old = ids["b"]
    assert fixture.heartbeat(old, 1, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.sync(old, 1, instance="b").error is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.join(member_id=old, instance="b").error is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.commit({("t", 0): 1}, member_id=old, generation=1, instance="b") == [
        ErrorCode.FENCED_INSTANCE_ID
    ]
    assert fixture.leave((old, "b")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_waiting_requests_of_the_previous_incarnation_are_fenced() -> None:
    fixture = GroupCoordinatorFixture()
    first = fixture.join(instance="a")
    second = fixture.join(instance="a")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    fixture.pass_time(3_000)
    assert second.reply.leader == second.reply.member_id

    follower = fixture.join(instance="b")
    assert fixture.join(member_id=second.reply.member_id, instance="a").error is ErrorCode.NONE
    waiting = fixture.sync(follower.reply.member_id, 2, instance="b")
    fixture.join(instance="b")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID


def test_a_restarted_static_member_with_the_same_selected_protocol_causes_no_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    form_group(fixture, "a", "b")
    assert fixture.join(instance="b", protocols=[("range", b"other topics")]).error is ErrorCode.NONE
    assert fixture.state() == "Stable"


def test_a_restarted_static_member_with_another_selected_protocol_causes_a_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    both = [("range", b""), ("sticky", b"")]
    form_group(fixture, "a", protocols=both)
    back = fixture.join(instance="a", protocols=[("sticky", b""), ("range", b"")])
    assert (back.reply.generation_id, back.reply.protocol_name) == (2, "sticky")


def test_a_static_member_restarted_in_completing_rebalance_starts_a_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    joins = {instance: fixture.join(instance=instance) for instance in "ab"}
    fixture.pass_time(6_000)
    back = fixture.join(instance="b")
    assert back.is_waiting
    assert fixture.state() == "PreparingRebalance"
    fixture.join(member_id=joins["a"].reply.member_id, instance="a")
    assert back.reply.generation_id == 2


def test_an_unknown_instance_is_an_unknown_member() -> None:
    fixture = GroupCoordinatorFixture()
    (one,) = fixture.stable_group(1)
    assert fixture.heartbeat(one, 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_expires() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b", session_ms=30_000, rebalance_ms=10_000)
    options = {"session_ms": 30_000, "rebalance_ms": 10_000}
    again = fixture.join(member_id=ids["a"], instance="a", **options)  # type: ignore[arg-type]
    fixture.pass_time(10_000)
    assert again.reply.generation_id == 2
    assert {m.group_instance_id for m in again.reply.members} == {"a", "b"}
    fixture.sync(ids["a"], 2, {}, instance="a")
    assert fixture.heartbeat(ids["b"], 2, instance="b") is ErrorCode.NONE


def test_a_rebalance_without_joins_is_extended_while_static_members_have_sessions() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b", session_ms=60_000, rebalance_ms=10_000)
    newcomer, join = fixture.join_as_new_member(session_ms=6_000, rebalance_ms=10_000)
    fixture.leave((newcomer, None))
    assert join.error is ErrorCode.UNKNOWN_MEMBER_ID
    fixture.pass_time(10_000)
    assert fixture.state() == "PreparingRebalance"
    again = fixture.join(member_id=ids["b"], instance="b")
    fixture.pass_time(10_000)
    assert (again.reply.generation_id, again.reply.leader) == (2, ids["b"])


def test_remove_members_removes_a_static_member_by_its_instance_id() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    response = fixture.leave(("", "b"))
    assert (response.members[0].member_id, response.members[0].group_instance_id) == ("", "b")
    assert response.members[0].error_code == 0
    assert fixture.heartbeat(ids["b"], 1, instance="b") is ErrorCode.UNKNOWN_MEMBER_ID
    assert fixture.heartbeat(ids["a"], 1, instance="a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_failed_write_of_a_new_member_id_keeps_the_previous_one() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    fixture.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = fixture.join(instance="b", protocols=[("range", b"new")])
    assert (refused.error, refused.reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert fixture.heartbeat(ids["b"], 1, instance="b") is ErrorCode.NONE
    assert fixture.coordinator.administration.describe_group("g", 6).members[1].member_metadata == b""
    fixture.pass_time(9_999)
    assert fixture.heartbeat(ids["b"], 1, instance="b") is ErrorCode.NONE


def test_a_static_member_whose_new_id_is_being_written_joins_a_new_rebalance() -> None:
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    fixture.holds_commits = True
    back = fixture.join(instance="b")
    fixture.join(member_id=ids["a"], instance="a")
    assert back.reply.generation_id == 2
    fixture.commit_all()
    assert fixture.state() == "CompletingRebalance"


def test_the_session_of_a_restarted_static_member_starts_at_its_response() -> None:
    """Its deadline had passed while it waited; if it fails now, others must get its partitions."""
    fixture = GroupCoordinatorFixture()
    ids = form_group(fixture, "a", "b")
    fixture.holds_commits = True
    back = fixture.join(instance="b")
    for _ in range(3):
        fixture.pass_time(8_000)
        assert fixture.heartbeat(ids["a"], 1) is ErrorCode.NONE
    assert back.is_waiting
    fixture.holds_commits = False
    fixture.commit_all()
    assert back.error is ErrorCode.NONE
    fixture.pass_time(9_000)
    assert fixture.heartbeat(ids["a"], 1) is ErrorCode.NONE
    fixture.pass_time(2_000)
    assert fixture.heartbeat(ids["a"], 1) is ErrorCode.REBALANCE_IN_PROGRESS
