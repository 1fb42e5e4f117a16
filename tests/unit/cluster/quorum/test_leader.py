"""Leaders announce, resign and name successors, and voters react to it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.quorum.safeguards import Safeguard
from tests.support.states import state_of
from tests.unit.cluster.quorum.replica_fixture import (
    CLUSTER_ID,
    ReplicaFixture,
    begin,
    directory,
    endpoints,
    fetch_response,
    vote_for,
    vote_result,
)
from tidelog.cluster.quorum.effects import AppendRejected, LeaderChanged
from tidelog.cluster.quorum.epoch_requests import successor_backoff_ms
from tidelog.cluster.quorum.events import Append, Resign
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.states import State
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import begin_quorum_epoch, end_quorum_epoch
from tidelog.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from tidelog.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from tidelog.protocol.messages.fetch import FetchRequest


def successful_response(module: Any, name: str, epoch: int) -> Any:
    """Return the response of a voter that accepted BeginQuorumEpoch or EndQuorumEpoch."""
    partition = module.ResponsePartitionData(leader_id=-1, leader_epoch=epoch)
    topic = module.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return getattr(module, name)(topics=(topic,))


def end(leader_id: int, epoch: int, *preferred: int) -> EndQuorumEpochRequest:
    """Return the EndQuorumEpoch request of a leader."""
    partition = end_quorum_epoch.RequestPartitionData(
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_candidates=tuple(
            end_quorum_epoch.ReplicaInfo(candidate_id=each, candidate_directory_id=directory(each))
            for each in preferred
        ),
    )
    topic = end_quorum_epoch.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,))


def test_begin_quorum_epoch_is_repeated_until_voters_acknowledge() -> None:
    subject = ReplicaFixture().lead()
    reported = subject.requests_of(BeginQuorumEpochRequest)
    assert sorted(send.to_node for send in reported) == [2, 3]
    response = successful_response(begin_quorum_epoch, "BeginQuorumEpochResponse", 1)
    for send in reported:
        subject.respond(send, response if send.to_node == 2 else None)
    subject.fetch_as(2, 1, 1)
    subject.wait(500)
    subject.fetch_as(2, 1, 1)
    subject.wait(500)
    assert [send.to_node for send in subject.requests_of(BeginQuorumEpochRequest)] == [3]


def test_a_leader_without_fetches_of_a_majority_resigns() -> None:
    subject = ReplicaFixture().lead()
    for _ in range(10):
        subject.wait(1000)
        subject.fetch_as(2, 1, 1)
    assert state_of(subject) is State.LEADER
    subject.wait(3000)
    assert state_of(subject) is State.RESIGNED
    assert subject.all_of(LeaderChanged) == [LeaderChanged(1, None)]


def test_without_the_safeguard_a_leader_without_a_majority_stays_leader() -> None:
    subject = ReplicaFixture(disabled=[Safeguard.CHECK_QUORUM]).lead()
    subject.wait(1_000_000)
    assert subject.state is State.LEADER


def test_fetches_of_observers_do_not_extend_leadership() -> None:
    subject = ReplicaFixture().lead()
    for _ in range(3):
        subject.wait(1000)
        subject.fetch_as(9, 1, 1)
    assert subject.state is State.RESIGNED


def test_end_quorum_epoch_lists_successors_by_log_end_and_is_repeated() -> None:
    subject = ReplicaFixture().lead()
    subject.fetch_as(3, 1, 1)
    subject.fetch_as(2, 0, 0)
    for send in subject.requests_of(BeginQuorumEpochRequest):
        subject.respond(send, successful_response(begin_quorum_epoch, "BeginQuorumEpochResponse", 1))
    subject.step(Resign())
    reported = subject.requests_of(EndQuorumEpochRequest)
    assert sorted(send.to_node for send in reported) == [2, 3]
    partition = reported[0].message.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert [each.candidate_id for each in partition.preferred_candidates] == [3, 2]
    subject.respond(reported[0], successful_response(end_quorum_epoch, "EndQuorumEpochResponse", 1))
    subject.respond(reported[1], None)
    subject.wait(20)
    assert [send.to_node for send in subject.requests_of(EndQuorumEpochRequest)] == [reported[1].to_node]


def test_a_resigned_leader_leaves_the_epoch_when_no_leader_is_elected() -> None:
    subject = ReplicaFixture().lead()
    subject.step(Resign())
    subject.wait(2000)
    assert (subject.state, subject.epoch) == (State.UNATTACHED, 2)


def test_a_restarted_leader_does_not_lead_its_epoch_again() -> None:
    subject = ReplicaFixture(record=QuorumRecord(leader_epoch=4, leader_id=1, voted_id=1))
    assert (subject.state, subject.quorum.leader_id) == (State.RESIGNED, None)
    assert subject.requests_of(EndQuorumEpochRequest)
    assert vote_result(subject.send_request(vote_for(2, 4))) == (False, ErrorCode.NONE)
    assert vote_result(subject.send_request(vote_for(2, 5))) == (True, ErrorCode.NONE)


def test_a_restarted_follower_knows_its_leader() -> None:
    subject = ReplicaFixture(record=QuorumRecord(leader_epoch=4, leader_id=3))
    assert (subject.state, subject.quorum.leader_id) == (State.FOLLOWER, 3)
    assert subject.quorum.leader_endpoints == endpoints(3)


def test_the_first_preferred_successor_starts_an_election_at_once_and_others_later() -> None:
    first = ReplicaFixture().follow(2)
    first.send_request(end(2, 1, 1, 3))
    assert state_of(first) is State.PROSPECTIVE
    second = ReplicaFixture(3).follow(2)
    second.respond(second.requests_of(FetchRequest)[0], fetch_response(2, 1))
    second.send_request(end(2, 1, 1, 3))
    assert state_of(second) is State.FOLLOWER
    request = vote_for(1, 1, pre_vote=True, voter_id=3)
    assert vote_result(second.send_request(request)) == (True, ErrorCode.NONE), "its leader has resigned"
    second.wait(500)
    assert state_of(second) is State.PROSPECTIVE


@pytest.mark.parametrize(
    ("position", "count", "expected"), [(0, 3, 0), (1, 3, 250), (2, 3, 500), (3, 3, 1000), (0, 0, 1000)]
)
def test_preferred_successors_start_elections_in_order(position: int, count: int, expected: int) -> None:
    assert successor_backoff_ms(position, count, 1000) == expected


def test_invalid_begin_quorum_epoch_requests_are_refused() -> None:
    subject = ReplicaFixture().follow(2, epoch=3)

    def error(request: Any) -> int:
        return int(subject.send_request(request).topics[0].partitions[0].error_code)

    assert error(begin(3, 2)) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(begin(3, 3)) == ErrorCode.INVALID_REQUEST
    assert error(begin(1, 3)) == ErrorCode.INVALID_REQUEST
    assert error(begin(2, 3, voter_id=3)) == ErrorCode.INVALID_VOTER_KEY
    assert error(begin(2, 3, disk=2)) == ErrorCode.INVALID_VOTER_KEY
    assert error(begin(2, 3)) == ErrorCode.NONE
    assert (subject.state, subject.quorum.leader_id) == (State.FOLLOWER, 2)


def test_a_leader_of_a_later_epoch_is_followed_at_once() -> None:
    subject = ReplicaFixture().lead()
    subject.send_request(begin(3, 8))
    assert (subject.state, subject.epoch, subject.quorum.leader_id) == (State.FOLLOWER, 8, 3)
    assert subject.all_of(LeaderChanged) == [LeaderChanged(8, 3)]
    assert [send.to_node for send in subject.requests_of(FetchRequest)] == [3]


def test_an_append_without_leadership_or_with_a_wrong_epoch_or_size_is_refused() -> None:
    subject = ReplicaFixture(record=QuorumRecord(leader_epoch=4), append_max_bytes=1000)
    subject.append(b"a")
    assert subject.all_of(AppendRejected)
    subject.lead()
    subject.step(Append([b"a"], subject.epoch - 1, "old"))
    assert [refused.context for refused in subject.all_of(AppendRejected)] == ["old"]
    subject.append(b"x" * 1000)
    assert subject.all_of(AppendRejected)
    assert subject.log.end_offset == 1
