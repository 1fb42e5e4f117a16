"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter, and the upgrade from static to dynamic voters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.sim.quorum.safeguards import Safeguard
from tests.support.states import state_of
from tests.unit.cluster.quorum.leader_fixture import catch_up, leader_of
from tests.unit.cluster.quorum.logs import bootstrap_log, log_of
from tests.unit.cluster.quorum.replica_fixture import (
    CLUSTER_ID,
    ReplicaFixture,
    control_of,
    directory,
    dynamic,
    endpoints,
    static,
    voter,
)
from tidelog.cluster.quorum.control import voters_record
from tidelog.cluster.quorum.effects import AppendRejected, RecordsAppended
from tidelog.cluster.quorum.events import RequestReceived, UpgradeVoters
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_set import Endpoint, VoterSet
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import add_raft_voter, update_raft_voter
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

SUPPORTED = ApiVersionsResponse(
    supported_features=(SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1),)
)


def add(number: int, *, disk: int = 1, ack_when_committed: bool = True, **fields: Any) -> AddRaftVoterRequest:
    """Send AddRaftVoter as an operator."""
    listeners = tuple(
        add_raft_voter.Listener(name=name, host=host, port=port) for name, host, port in endpoints(number)
    )
    return AddRaftVoterRequest(
        **dict[str, Any](cluster_id=CLUSTER_ID, listeners=listeners, timeout_ms=5000) | fields,
        voter_id=number,
        voter_directory_id=directory(number, disk),
        ack_when_committed=ack_when_committed,
    )


def remove(number: int, *, disk: int = 1) -> RemoveRaftVoterRequest:
    """Send RemoveRaftVoter as an operator."""
    return RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=number, voter_directory_id=directory(number, disk)
    )


def update(
    number: int, epoch: int, host: str, *, versions: tuple[int, int] = (0, 1)
) -> UpdateRaftVoterRequest:
    """Send UpdateRaftVoter as a voter."""
    return UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=epoch,
        voter_id=number,
        voter_directory_id=directory(number),
        listeners=(update_raft_voter.Listener(name="CONTROLLER", host=host, port=9093),),
        k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=versions[0], max_supported_version=versions[1]
        ),
    )


def begin_adding(subject: ReplicaFixture, number: int, **options: Any) -> object:
    """Send AddRaftVoter and the new voter's ApiVersions response; return the source of the request."""
    source = object()
    subject.step(RequestReceived(source, add(number, **options)))
    (send,) = subject.requests_of(ApiVersionsRequest)
    assert send.to_node == number
    subject.respond(send, SUPPORTED)
    return source


def test_an_added_voter_counts_at_once_and_the_response_waits_for_the_commit() -> None:
    subject = leader_of(1, 2)
    catch_up(subject, 3)
    source = begin_adding(subject, 3)
    assert subject.quorum.voter_ids == (1, 2, 3)
    assert subject.response_to(source) is None
    catch_up(subject, 3)
    assert subject.response_to(source).error_code == ErrorCode.NONE


def test_an_added_voter_can_be_acknowledged_before_the_commit() -> None:
    subject = leader_of(1)
    catch_up(subject, 2)
    source = begin_adding(subject, 2, ack_when_committed=False)
    assert subject.response_to(source).error_code == ErrorCode.NONE
    assert subject.quorum.high_watermark < subject.log.end_offset


def test_a_single_leader_gives_its_first_added_voter_the_full_fetch_timeout() -> None:
    subject = leader_of(1)
    for _ in range(20):
        subject.wait(1000)
    catch_up(subject, 2)
    begin_adding(subject, 2)
    assert (subject.state, subject.quorum.voter_ids) == (State.LEADER, (1, 2))
    subject.wait(3000)
    assert subject.state is State.RESIGNED


def test_a_voter_that_lags_is_silent_or_too_old_is_not_added() -> None:
    subject = leader_of(1, 2)
    source = begin_adding(subject, 3)
    assert subject.response_to(source).error_code == ErrorCode.REQUEST_TIMED_OUT
    catch_up(subject, 3)
    for response, error in [
        (None, ErrorCode.REQUEST_TIMED_OUT),
        (ApiVersionsResponse(), ErrorCode.INVALID_REQUEST),
    ]:
        source = object()
        subject.wait(100)
        subject.step(RequestReceived(source, add(3)))
        subject.respond(subject.requests_of(ApiVersionsRequest)[0], response)
        assert subject.response_to(source).error_code == error
    assert subject.quorum.voter_ids == (1, 2)


def test_voters_change_one_at_a_time() -> None:
    subject = leader_of(1, 2, 3)
    source = object()
    subject.step(RequestReceived(source, remove(3)))
    for request in (add(4), remove(2)):
        assert subject.send_request(request).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (
        subject.send_request(update(2, subject.epoch, "elsewhere")).error_code == ErrorCode.REQUEST_TIMED_OUT
    )
    catch_up(subject, 2)
    assert subject.response_to(source).error_code == ErrorCode.NONE
    assert subject.quorum.voter_ids == (1, 2)


def test_a_timed_out_change_still_blocks_the_next() -> None:
    subject = leader_of(1, 2, 3, voter_change_timeout_ms=1000)
    source = object()
    subject.step(RequestReceived(source, remove(3)))
    subject.wait(1000)
    assert subject.response_to(source).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert subject.send_request(remove(2)).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_new_leader_changes_voters_only_after_a_commit_in_its_epoch() -> None:
    subject = ReplicaFixture(voters=VoterSet(), log=log_of(dynamic(1, 2, 3))).lead()
    assert subject.send_request(remove(3)).error_code == ErrorCode.REQUEST_TIMED_OUT
    catch_up(subject, 2)
    subject.step(RequestReceived(object(), remove(3)))
    assert subject.quorum.voter_ids == (1, 2)


def test_without_the_safeguard_two_changes_are_pending() -> None:
    subject = leader_of(1, 2, 3, disabled=[Safeguard.ONE_VOTER_CHANGE_AT_A_TIME])
    subject.step(RequestReceived(object(), remove(3)))
    subject.step(RequestReceived(object(), remove(2)))
    assert subject.quorum.voter_ids == (1,)


def test_a_removed_leader_leads_until_the_other_voters_commit_the_removal() -> None:
    subject = leader_of(1, 2, 3)
    source = object()
    subject.step(RequestReceived(source, remove(1)))
    assert subject.quorum.voter_ids == (2, 3)
    catch_up(subject, 2)
    assert state_of(subject) is State.LEADER, "its own log does not count any more"
    catch_up(subject, 3)
    assert subject.response_to(source).error_code == ErrorCode.NONE
    assert state_of(subject) is State.RESIGNED


def test_a_removed_voter_is_a_candidate_until_the_removal_is_committed() -> None:
    log = log_of(dynamic(1, 2))
    log.append(control_of(1, 2, voters_record(dynamic(2))), 1)
    subject = ReplicaFixture(voters=VoterSet(), log=log)
    assert not subject.quorum.is_voter
    subject.lead()
    assert subject.quorum.voter_ids == (2,)
    subject.fetch_as(2, subject.log.end_offset, subject.log.last_epoch)
    assert subject.state is State.RESIGNED
    log = log_of(dynamic(1, 2))
    log.append(control_of(1, 2, voters_record(dynamic(2))), 1)
    log.advance_high_watermark(3)
    subject = ReplicaFixture(voters=VoterSet(), log=log)
    subject.wait(60_000)
    assert subject.state is State.UNATTACHED


def test_invalid_requests_get_an_error_message() -> None:
    subject = leader_of(1, 2)
    assert subject.send_request(add(2, disk=2)).error_code == ErrorCode.DUPLICATE_VOTER
    assert subject.send_request(add(3, listeners=())).error_code == ErrorCode.INVALID_REQUEST
    assert subject.send_request(add(3, cluster_id="other")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert subject.send_request(remove(2, disk=2)).error_code == ErrorCode.VOTER_NOT_FOUND
    assert subject.send_request(remove(9)).error_code == ErrorCode.VOTER_NOT_FOUND
    assert leader_of(1).send_request(remove(1)).error_code == ErrorCode.INVALID_REQUEST
    follower = ReplicaFixture().follow(2)
    assert follower.send_request(add(4)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_voter_with_too_many_endpoints_for_a_snapshot_header_is_refused() -> None:
    """Once in the log, they would prevent every controller from starting."""
    subject = leader_of(1, 2)
    end_offset = subject.log.end_offset
    many = tuple(
        update_raft_voter.Listener(name="CONTROLLER", host=f"host-{number}" + "x" * 100, port=9093)
        for number in range(800)
    )
    changed = replace(update(2, subject.epoch, "elsewhere"), listeners=many)
    assert subject.send_request(changed).error_code == ErrorCode.INVALID_REQUEST
    added = tuple(add_raft_voter.Listener(name=each.name, host=each.host, port=each.port) for each in many)
    assert subject.send_request(add(3, listeners=added)).error_code == ErrorCode.INVALID_REQUEST
    assert subject.log.end_offset == end_offset


def test_static_voters_can_be_upgraded_but_not_changed() -> None:
    subject = ReplicaFixture().lead()
    subject.fetch_as(2, 1, 1)
    assert subject.send_request(add(4)).error_code == ErrorCode.UNSUPPORTED_VERSION
    subject.step(UpgradeVoters(subject.epoch, "upgrade"))
    (refused,) = subject.all_of(AppendRejected)
    assert "[3]" in refused.reason
    subject.fetch_as(3, 1, 1)
    subject.step(UpgradeVoters(subject.epoch, "upgrade"))
    assert [done.context for done in subject.all_of(RecordsAppended)] == ["upgrade"]
    assert subject.quorum.kraft_version == 1
    assert [each.key.directory_id for each in subject.quorum.voters] == [directory(n) for n in (1, 2, 3)]
    subject.step(UpgradeVoters(subject.epoch, "again"))
    assert subject.all_of(AppendRejected)


def test_an_upgrade_records_endpoints_reported_by_static_voters() -> None:
    subject = ReplicaFixture().lead()
    subject.fetch_as(2, 1, 1)
    end_offset = subject.log.end_offset
    assert subject.send_request(update(2, subject.epoch, "moved")).error_code == ErrorCode.NONE
    assert (
        subject.send_request(update(3, subject.epoch, "host-3", versions=(0, 0))).error_code == ErrorCode.NONE
    )
    assert subject.log.end_offset == end_offset
    subject.step(UpgradeVoters(subject.epoch))
    assert "[3] do not support" in subject.all_of(AppendRejected)[0].reason
    subject.send_request(update(3, subject.epoch, "host-3"))
    subject.step(UpgradeVoters(subject.epoch))
    assert subject.all_of(RecordsAppended)
    assert [each.endpoints[0].host for each in subject.quorum.voters] == ["host-1", "moved", "host-3"]


def test_a_static_voter_sends_update_raft_voter_once_to_each_leader() -> None:
    subject = ReplicaFixture(own_endpoints=endpoints(1)).follow(2)
    for expected in (1, 0, 0):
        subject.now += 1500
        subject.respond_to_fetch()
        subject.now += 1600
        subject.respond_to_fetch()
        reported = subject.requests_of(UpdateRaftVoterRequest)
        assert len(reported) == expected
        for send in reported:
            subject.respond(send, UpdateRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
            subject.wait(20)


def test_changed_endpoints_of_a_voter_are_recorded() -> None:
    subject = leader_of(1, 2)
    response = subject.send_request(update(2, subject.epoch, "elsewhere"))
    assert (response.error_code, response.current_leader.leader_id) == (ErrorCode.NONE, 1)
    assert subject.quorum.voters.by_id[2].endpoints == (Endpoint("CONTROLLER", "elsewhere", 9093),)
    catch_up(subject, 2)
    unsupported = update(2, subject.epoch, "elsewhere", versions=(0, 0))
    assert subject.send_request(unsupported).error_code == ErrorCode.INVALID_REQUEST
    assert subject.send_request(update(2, 1, "old")).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_follower_sends_update_raft_voter_when_its_entry_is_out_of_date() -> None:
    moved = (Endpoint("CONTROLLER", "new-host", 9093),)
    subject = ReplicaFixture(voters=VoterSet(), log=log_of(dynamic(1, 2)), own_endpoints=moved)
    subject.follow(2, epoch=3)
    subject.now += 3000
    subject.respond_to_fetch()
    (send,) = subject.requests_of(UpdateRaftVoterRequest)
    assert send.message.listeners[0].host == "new-host"  # type: ignore[attr-defined]


def test_auto_join_replaces_the_voter_of_a_lost_directory() -> None:
    voters = VoterSet.of([voter(1, disk=7), voter(2)])
    subject = ReplicaFixture(
        voters=VoterSet(), log=log_of(voters), own_endpoints=endpoints(1), auto_join=True
    ).follow(2, epoch=3)
    subject.respond_to_fetch()
    subject.now += 1000
    subject.respond_to_fetch()
    subject.now += 2500
    subject.respond_to_fetch()
    (removal,) = subject.requests_of(RemoveRaftVoterRequest)
    assert removal.message.voter_directory_id == directory(1, 7)  # type: ignore[attr-defined]


def test_the_first_leader_writes_the_bootstrap_snapshot_to_the_log() -> None:
    subject = ReplicaFixture(voters=VoterSet(), log=bootstrap_log(dynamic(1)))
    assert subject.state is State.LEADER
    assert subject.log.end_offset == 3, "leader change, version, voters"
    again = ReplicaFixture(voters=VoterSet(), log=subject.log, record=subject.record)
    assert again.log.end_offset == 4
    follower = ReplicaFixture(2, voters=static(1))
    assert follower.requests_of(FetchRequest)
