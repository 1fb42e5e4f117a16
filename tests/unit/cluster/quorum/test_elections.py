"""Elections: pre-votes, votes, and their persistence."""

from __future__ import annotations

import pytest

from tests.sim.quorum.safeguards import Safeguard
from tests.support.configs import quorum_settings
from tests.unit.cluster.quorum.replica_fixture import (
    ReplicaFixture,
    begin,
    directory,
    dynamic,
    endpoints,
    fetch_response,
    log_with,
    static,
    vote_for,
    vote_response,
    vote_result,
)
from tidelog.cluster.quorum.effects import Persist, Respond, Send
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.quorum_state import FIRST_ELECTION_MS
from tidelog.cluster.quorum.states import State
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse

YES = (True, ErrorCode.NONE)
NO = (False, ErrorCode.NONE)


def test_a_voter_sends_pre_votes_before_it_raises_the_epoch() -> None:
    subject = ReplicaFixture()
    subject.wait_until(State.PROSPECTIVE)
    requested = [send.message.topics[0].partitions[0] for send in subject.requests_of(VoteRequest)]  # type: ignore[attr-defined]
    assert [(each.pre_vote, each.replica_epoch) for each in requested] == [(True, 0), (True, 0)]
    assert subject.epoch == 0
    subject.respond(subject.requests_of(VoteRequest)[0], vote_response(0))
    assert (subject.state, subject.epoch) == (State.CANDIDATE, 1)


def test_a_candidate_persists_its_own_vote_before_it_requests_votes() -> None:
    subject = ReplicaFixture(disabled=[Safeguard.PRE_VOTE])
    effects = subject.wait_until(State.CANDIDATE)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Send)
    assert subject.record == QuorumRecord(leader_epoch=1, voted_id=1, voted_directory_id=directory(1))


def test_a_majority_elects_a_leader_that_writes_a_leader_change_record() -> None:
    subject = ReplicaFixture().lead()
    assert (subject.epoch, subject.quorum.leader_id, subject.log.last_epoch) == (1, 1, 1)
    assert subject.record is not None and subject.record.leader_id == 1


def test_a_single_voter_becomes_leader_at_once_and_commits_alone() -> None:
    subject = ReplicaFixture(voters=static(1))
    assert subject.state is State.LEADER
    assert subject.quorum.high_watermark == subject.log.end_offset == 1


def test_a_refused_prospective_follows_its_previous_leader() -> None:
    subject = ReplicaFixture().follow(2, epoch=4)
    subject.wait_until(State.PROSPECTIVE)
    for send in subject.requests_of(VoteRequest):
        subject.respond(send, vote_response(4, yes=False))
    assert (subject.state, subject.epoch, subject.quorum.leader_id) == (State.FOLLOWER, 4, 2)


def test_a_prospective_without_responses_becomes_unattached() -> None:
    subject = ReplicaFixture()
    subject.wait_until(State.PROSPECTIVE)
    subject.wait_until(State.UNATTACHED)
    assert subject.epoch == 0


def test_a_prospective_becomes_follower_on_begin_quorum_epoch() -> None:
    subject = ReplicaFixture().follow(2)
    subject.wait_until(State.PROSPECTIVE)
    subject.send_request(begin(2, 1))
    assert subject.state is State.FOLLOWER


def test_a_voter_without_pre_vote_support_counts_as_granted() -> None:
    subject = ReplicaFixture()
    subject.wait_until(State.PROSPECTIVE)
    send = subject.requests_of(VoteRequest)[0]
    subject.respond(send, VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert subject.state is State.CANDIDATE


def test_a_rejected_candidate_waits_for_its_backoff() -> None:
    subject = ReplicaFixture()
    subject.wait_until(State.PROSPECTIVE)
    subject.respond(subject.requests_of(VoteRequest)[0], vote_response(0))
    for send in subject.requests_of(VoteRequest):
        subject.respond(send, vote_response(1, yes=False))
    assert subject.state is State.CANDIDATE
    assert subject.quorum.deadline_ms is not None and subject.quorum.deadline_ms > subject.now
    subject.wait_until(State.PROSPECTIVE)
    assert subject.epoch == 1


def test_votes_of_an_ended_election_are_ignored() -> None:
    subject = ReplicaFixture()
    subject.wait_until(State.PROSPECTIVE)
    late = subject.requests_of(VoteRequest)
    subject.wait_until(State.UNATTACHED)
    for send in late:
        subject.respond(send, vote_response(0))
    assert subject.state is State.UNATTACHED


def test_a_vote_is_persisted_before_it_is_reported_and_granted_once_per_epoch() -> None:
    subject = ReplicaFixture()
    assert vote_result(subject.send_request(vote_for(2, 5))) == YES
    kinds = [type(effect) for effect in subject.effects]
    assert kinds.index(Persist) < kinds.index(Respond)
    assert subject.record == QuorumRecord(leader_epoch=5, voted_id=2, voted_directory_id=directory(2))
    assert subject.state is State.VOTED
    assert vote_result(subject.send_request(vote_for(3, 5))) == NO
    assert vote_result(subject.send_request(vote_for(2, 5))) == YES


def test_a_vote_is_kept_across_a_restart() -> None:
    record = QuorumRecord(leader_epoch=5, voted_id=2, voted_directory_id=directory(2))
    subject = ReplicaFixture(record=record)
    assert subject.state is State.VOTED
    assert vote_result(subject.send_request(vote_for(3, 5))) == NO
    assert vote_result(subject.send_request(vote_for(2, 5))) == YES


def test_a_candidate_is_its_id_and_directory_id() -> None:
    subject = ReplicaFixture()
    assert vote_result(subject.send_request(vote_for(2, 5, disk=1))) == YES
    assert vote_result(subject.send_request(vote_for(2, 5, disk=2))) == NO


@pytest.mark.parametrize(
    ("last", "expected"),
    [((2, 3), YES), ((2, 4), YES), ((3, 1), YES), ((2, 2), NO), ((1, 9), NO)],
    ids=["as long", "longer", "of a later epoch", "shorter", "longer but of an earlier epoch"],
)
def test_a_vote_is_granted_only_to_a_log_that_is_up_to_date(
    last: tuple[int, int], expected: tuple[bool, ErrorCode]
) -> None:
    for pre_vote in (False, True):
        subject = ReplicaFixture(log=log_with(1, 1, 2))
        assert vote_result(subject.send_request(vote_for(2, 5, last=last, pre_vote=pre_vote))) == expected


def test_a_pre_vote_does_not_change_the_persisted_vote() -> None:
    subject = ReplicaFixture()
    before = subject.record
    assert vote_result(subject.send_request(vote_for(2, 0, pre_vote=True))) == YES
    assert subject.record == before
    assert not subject.all_of(Persist)


def test_a_follower_with_a_live_leader_refuses_pre_votes() -> None:
    subject = ReplicaFixture().follow(2)
    assert vote_result(subject.send_request(vote_for(3, 1, pre_vote=True))) == YES, "it has not fetched yet"
    subject = ReplicaFixture().follow(2)
    subject.respond(subject.requests_of(FetchRequest)[0], fetch_response(2, 1))
    assert vote_result(subject.send_request(vote_for(3, 1, pre_vote=True))) == NO
    subject.wait_until(State.PROSPECTIVE)
    assert vote_result(subject.send_request(vote_for(3, 1, pre_vote=True))) == YES


def test_a_leader_refuses_pre_votes() -> None:
    subject = ReplicaFixture().lead()
    assert vote_result(subject.send_request(vote_for(3, 1, last=(1, 9), pre_vote=True))) == NO


def test_a_leader_of_an_older_epoch_resigns_and_grants_its_vote() -> None:
    subject = ReplicaFixture().lead()
    assert vote_result(subject.send_request(vote_for(3, 2, last=(1, 9)))) == YES
    assert (subject.state, subject.epoch, subject.quorum.leader_id) == (State.VOTED, 2, None)


def test_a_higher_epoch_is_adopted_even_when_the_vote_is_refused() -> None:
    subject = ReplicaFixture(log=log_with(1))
    assert vote_result(subject.send_request(vote_for(2, 7))) == NO
    assert (subject.state, subject.epoch) == (State.UNATTACHED, 7)


def test_a_response_with_a_higher_epoch_ends_the_election() -> None:
    subject = ReplicaFixture()
    subject.wait_until(State.PROSPECTIVE)
    error = ErrorCode.FENCED_LEADER_EPOCH
    subject.respond(
        subject.requests_of(VoteRequest)[0], vote_response(6, yes=False, error=error, leader_id=3)
    )
    assert (subject.state, subject.epoch, subject.quorum.leader_id) == (State.FOLLOWER, 6, 3)
    assert subject.quorum.leader_endpoints == endpoints(3)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote_for(2, 4), ErrorCode.FENCED_LEADER_EPOCH),
        (vote_for(2, 6, last=(6, 1)), ErrorCode.INVALID_REQUEST),
        (vote_for(2, 6, last=(1, -1)), ErrorCode.INVALID_REQUEST),
        (vote_for(-1, 6), ErrorCode.INVALID_REQUEST),
        (vote_for(2, 6, voter_id=3), ErrorCode.INVALID_VOTER_KEY),
        (vote_for(2, 6, voter_disk=2), ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_invalid_requests_are_refused(request_: VoteRequest, error: ErrorCode) -> None:
    subject = ReplicaFixture(record=QuorumRecord(leader_epoch=5))
    assert vote_result(subject.send_request(request_)) == (False, error)


def test_a_request_of_another_cluster_or_topic_is_refused() -> None:
    subject = ReplicaFixture()
    response = subject.send_request(vote_for(2, 6, cluster_id="another"))
    assert (response.error_code, response.topics) == (ErrorCode.INCONSISTENT_CLUSTER_ID, ())
    response = subject.send_request(VoteRequest(cluster_id=None))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert subject.epoch == 0


def test_a_replica_with_another_directory_id_than_the_voter_is_not_elected() -> None:
    subject = ReplicaFixture(4, dynamic(1, 2, 3))
    subject.wait(60_000)
    assert (subject.state, subject.quorum.is_voter) == (State.UNATTACHED, False)
    wiped = ReplicaFixture(1, static())
    assert not wiped.quorum.is_voter


def test_voters_of_a_new_quorum_do_not_wait_for_an_election_timeout() -> None:
    subject = ReplicaFixture()
    started = subject.now
    subject.wait_until(State.PROSPECTIVE)
    assert subject.now - started <= FIRST_ELECTION_MS
    assert {request.to_node for request in subject.requests_of(VoteRequest)} == {2, 3}
    assert subject.epoch == 0


def test_a_restarted_voter_without_leader_waits_for_an_election_timeout() -> None:
    subject = ReplicaFixture(record=QuorumRecord(leader_epoch=4))
    started = subject.now
    subject.wait_until(State.PROSPECTIVE)
    assert subject.now - started >= quorum_settings().election_timeout_ms


def test_without_the_safeguard_a_voter_votes_twice() -> None:
    subject = ReplicaFixture(disabled=[Safeguard.ONE_VOTE_PER_EPOCH])
    assert vote_result(subject.send_request(vote_for(2, 5))) == YES
    assert vote_result(subject.send_request(vote_for(3, 5))) == YES


def test_without_the_safeguard_a_vote_is_granted_that_is_not_durable() -> None:
    subject = ReplicaFixture(
        record=QuorumRecord(leader_epoch=4), disabled=[Safeguard.VOTE_DURABLE_BEFORE_RESPONSE]
    )
    subject.send_request(vote_for(2, 5))
    kinds = [type(effect) for effect in subject.effects]
    assert Respond in kinds
    assert Persist not in kinds
