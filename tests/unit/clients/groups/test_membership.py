"""The member of a classic group: joins, heartbeats, assignments and commits."""

from __future__ import annotations

import pytest

from tests.support.groups.memberships import OFFERS, join_response, member
from tidelog.clients.groups.membership import Membership, MemberState, Step
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.join_group import JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse


def stable(group_instance_id: str | None = None) -> Membership:
    membership = member(group_instance_id)
    membership.join_request(OFFERS)
    assert membership.on_join_response(join_response(), 0) is Step.PROCEED
    assert membership.on_sync_response(SyncGroupResponse(), 0) is Step.PROCEED
    return membership


def test_a_member_joins_syncs_and_is_stable() -> None:
    membership = member("dock-1")
    request = membership.join_request(OFFERS)
    assert (request.group_id, request.member_id, request.group_instance_id) == ("harbour", "", "dock-1")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (45_000, 300_000)
    assert [(entry.name, entry.metadata) for entry in request.protocols] == OFFERS
    response = join_response()
    assert membership.on_join_response(response, 0) is Step.PROCEED
    assert membership.is_leader(response)
    sync = membership.sync_request({"m-1": b"assignment"})
    assert (sync.member_id, sync.generation_id, sync.protocol_name) == ("m-1", 1, "range")
    assert [(entry.member_id, entry.assignment) for entry in sync.assignments] == [("m-1", b"assignment")]
    assert membership.on_sync_response(SyncGroupResponse(), 0) is Step.PROCEED
    assert membership.state is MemberState.STABLE
    assert not membership.needs_join


def test_only_the_leader_assigns_unless_skip_assignment_is_set() -> None:
    membership = member()
    assert not membership.is_leader(join_response(leader="m-2"))
    assert not membership.is_leader(join_response(skip_assignment=True))


def test_the_join_is_repeated_with_the_assigned_member_id() -> None:
    membership = member()
    membership.join_request(OFFERS)
    assert membership.on_join_response(join_response(ErrorCode.MEMBER_ID_REQUIRED), 0) is Step.REJOIN
    assert membership.join_request(OFFERS).member_id == "m-1"


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Step.RETRY),
        (ErrorCode.NOT_COORDINATOR, Step.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Step.FIND_COORDINATOR),
        (ErrorCode.REBALANCE_IN_PROGRESS, Step.REJOIN),
        (ErrorCode.UNKNOWN_MEMBER_ID, Step.REJOIN),
    ],
)
def test_a_failed_join_leaves_the_member_unjoined(error: ErrorCode, step: Step) -> None:
    membership = member()
    membership.join_request(OFFERS)
    assert membership.on_join_response(join_response(error), 0) is step
    assert membership.state is MemberState.UNJOINED
    assert membership.needs_join


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
    ],
)
def test_a_fatal_join_error_is_raised_with_the_group(error: ErrorCode) -> None:
    membership = member()
    membership.join_request(OFFERS)
    with pytest.raises(KafkaError, match="harbour") as caught:
        membership.on_join_response(join_response(error), 0)
    assert caught.value.code is error


def test_a_group_with_another_protocol_type_is_refused() -> None:
    membership = member()
    membership.join_request(OFFERS)
    with pytest.raises(KafkaError):
        membership.on_join_response(JoinGroupResponse(member_id="m-1", protocol_type="connect"), 0)


def test_illegal_generation_at_sync_keeps_the_member_id() -> None:
    membership = member()
    membership.join_request(OFFERS)
    membership.on_join_response(join_response(), 0)
    response = SyncGroupResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    assert membership.on_sync_response(response, 0) is Step.REJOIN
    assert (membership.member_id, membership.generation) == ("m-1", -1)


def test_a_lost_response_makes_the_member_rejoin() -> None:
    membership = member()
    membership.join_request(OFFERS)
    membership.on_join_interrupted()
    assert membership.join_request(OFFERS).member_id == ""


def test_heartbeats_are_sent_at_intervals_and_the_session_expires_without_responses() -> None:
    membership = stable()
    assert membership.next_heartbeat_ms(1_000) == 2_000
    request = membership.heartbeat_request(3_000)
    assert (request.generation_id, request.member_id) == (1, "m-1")
    assert membership.next_heartbeat_ms(3_000) == 3_000
    assert not membership.has_session_expired(45_000)
    assert membership.has_session_expired(45_001)
    membership.on_heartbeat_response(0, 1, 40_000)
    assert not membership.has_session_expired(45_001)


def test_a_rejoin_has_the_owned_partitions() -> None:
    membership = stable()
    membership.on_heartbeat_response(ErrorCode.REBALANCE_IN_PROGRESS, 1, 100)
    assert membership.needs_join
    assert not membership.lost_partitions
    assert membership.state is MemberState.STABLE
    assert membership.join_request(OFFERS).reason == "group is rebalancing"


def test_a_rebalance_during_the_sync_is_reported_by_the_sync() -> None:
    membership = member()
    membership.join_request(OFFERS)
    membership.on_join_response(join_response(), 0)
    membership.on_heartbeat_response(ErrorCode.REBALANCE_IN_PROGRESS, 1, 100)
    assert membership.state is MemberState.SYNCING


@pytest.mark.parametrize(
    ("error", "member_id"), [(ErrorCode.ILLEGAL_GENERATION, "m-1"), (ErrorCode.UNKNOWN_MEMBER_ID, "")]
)
def test_a_member_removed_from_the_group_loses_its_partitions(error: ErrorCode, member_id: str) -> None:
    membership = stable()
    membership.on_heartbeat_response(error, 1, 100)
    assert membership.lost_partitions
    assert membership.needs_join
    assert membership.member_id == member_id
    assert membership.state is MemberState.UNJOINED


def test_a_fenced_static_member_gets_an_error() -> None:
    membership = stable("dock-1")
    with pytest.raises(KafkaError) as caught:
        membership.on_heartbeat_response(ErrorCode.FENCED_INSTANCE_ID, 1, 100)
    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
    assert membership.lost_partitions


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_fenced_by_a_late_commit_during_its_join_rejoins(code: ErrorCode) -> None:
    membership = stable()
    membership.request_join("group is rebalancing")
    membership.join_request(OFFERS)
    membership.on_commit_error(code)
    assert membership.on_join_response(join_response(generation=2), 0) is Step.REJOIN
    membership.join_request(OFFERS)
    assert membership.on_join_response(join_response(generation=3), 0) is Step.PROCEED
    assert membership.lost_partitions


def test_a_response_of_an_earlier_generation_is_ignored() -> None:
    membership = stable()
    membership.on_heartbeat_response(ErrorCode.UNKNOWN_MEMBER_ID, 0, 100)
    assert membership.state is MemberState.STABLE


def test_a_moved_coordinator_is_looked_up_again() -> None:
    membership = stable()
    step = membership.on_heartbeat_response(ErrorCode.NOT_COORDINATOR, 1, 100)
    assert step is Step.FIND_COORDINATOR
    assert membership.state is MemberState.STABLE


def test_static_members_do_not_leave_when_they_close() -> None:
    assert stable().leaves_on_close
    assert not stable("dock-1").leaves_on_close
    assert not member().leaves_on_close


def test_leave_names_the_member_in_the_format_of_the_version() -> None:
    old = stable().leave_request(2, "bye")
    assert (old.member_id, old.members) == ("m-1", ())
    new = stable().leave_request(5, "bye")
    assert [(entry.member_id, entry.reason) for entry in new.members] == [("m-1", "bye")]


def test_after_leaving_only_the_need_to_join_remains() -> None:
    membership = stable()
    membership.on_left("idle")
    assert membership.state is MemberState.UNJOINED
    assert membership.lost_partitions
    assert membership.join_request(OFFERS).member_id == ""
