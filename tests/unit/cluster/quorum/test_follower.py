"""Followers fetch the log and snapshots, and replicas find the leader."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.quorum.safeguards import Safeguard
from tests.support.states import state_of
from tests.unit.cluster.quorum.logs import log_of, snapshot_of
from tests.unit.cluster.quorum.replica_fixture import (
    ReplicaFixture,
    control_of,
    dynamic,
    fetch_response,
    log_with,
    record_of,
    static,
)
from tidelog.cluster.quorum.control import voters_record
from tidelog.cluster.quorum.effects import HighWatermark, Persist, Send, SnapshotLoaded
from tidelog.cluster.quorum.follower import CommittedRecordsLost
from tidelog.cluster.quorum.log import SnapshotId
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.states import State
from tidelog.cluster.quorum.voter_set import Endpoint, VoterSet
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages import fetch, fetch_snapshot
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.fetch_snapshot import FetchSnapshotRequest


def last_fetch(subject: ReplicaFixture) -> Any:
    """Return the partition of the last fetch that was sent."""
    message = subject.requests_of(FetchRequest)[-1].message
    assert isinstance(message, FetchRequest)
    return message.topics[0].partitions[0]


def piece(
    subject: ReplicaFixture, snapshot_id: SnapshotId, data: bytes, position: int, **fields: Any
) -> None:
    """Respond to the snapshot request as the leader."""
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        snapshot_id=fetch_snapshot.ResponseSnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=2, leader_epoch=subject.epoch),
        position=position,
        unaligned_records=data,
        **fields,
    )
    topic = fetch_snapshot.ResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    send = subject.requests_of(FetchSnapshotRequest)[-1]
    subject.respond(send, fetch_snapshot.FetchSnapshotResponse(topics=(topic,)))


def test_fetched_records_are_flushed_before_the_next_fetch_acknowledges_them() -> None:
    subject = ReplicaFixture().follow()
    assert (last_fetch(subject).fetch_offset, last_fetch(subject).last_fetched_epoch) == (0, 0)
    effects = subject.respond_to_fetch(record_of(1, 0), record_of(1, 1), high_watermark=1)
    assert [type(effect) for effect in effects] == [Persist, HighWatermark, Send]
    assert [effect.flush_to for effect in subject.all_of(Persist)] == [2]
    assert (last_fetch(subject).fetch_offset, last_fetch(subject).last_fetched_epoch) == (2, 1)
    assert (subject.quorum.high_watermark, last_fetch(subject).high_watermark) == (1, 1)


def test_existing_records_are_flushed_before_the_first_fetch() -> None:
    subject = ReplicaFixture(log=log_with(1, 1), record=QuorumRecord(leader_epoch=1, leader_id=2))
    kinds = [type(effect) for effect in subject.effects if not isinstance(effect, HighWatermark)]
    assert kinds.index(Persist) < kinds.index(Send)
    assert subject.all_of(Persist)[0].flush_to == 2


def test_without_the_safeguard_a_fetch_is_sent_before_the_flush() -> None:
    subject = ReplicaFixture(disabled=[Safeguard.LOG_FLUSHED_BEFORE_ACKNOWLEDGE]).follow()
    effects = subject.respond_to_fetch(record_of(1, 0))
    kinds = [type(effect) for effect in effects]
    assert Send in kinds
    assert Persist not in kinds


def test_the_high_watermark_never_exceeds_the_log_end_or_decreases() -> None:
    subject = ReplicaFixture().follow()
    subject.respond_to_fetch(record_of(1, 0), high_watermark=9)
    assert subject.quorum.high_watermark == 1
    subject.respond_to_fetch(high_watermark=0)
    assert subject.quorum.high_watermark == 1


@pytest.mark.parametrize(
    "records",
    [record_of(1, 1), record_of(2, 0), record_of(1, 0)[:-1], record_of(1, 0)[:-1] + b"\xff"],
    ids=["a gap", "a later epoch", "a truncated batch", "a damaged batch"],
)
def test_records_that_do_not_continue_the_log_are_ignored(records: bytes) -> None:
    subject = ReplicaFixture().follow()
    subject.respond_to_fetch(records)
    assert subject.log.end_offset == 0
    assert not subject.requests_of(FetchRequest), "the next fetch waits for the backoff"
    subject.wait(20)
    assert subject.requests_of(FetchRequest)


def diverge(subject: ReplicaFixture, epoch: int, end_offset: int) -> None:
    """Respond with the diverging epoch of the leader's log."""
    leader_id = subject.quorum.leader_id
    assert leader_id is not None
    diverging = fetch.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    message = fetch_response(leader_id, subject.epoch, diverging_epoch=diverging)
    subject.respond(subject.requests_of(FetchRequest)[-1], message)


def test_a_diverging_log_is_truncated_to_the_common_prefix() -> None:
    for reported, kept in [((1, 2), 2), ((1, 5), 3), ((2, 4), 4), ((0, 0), 0)]:
        subject = ReplicaFixture(log=log_with(1, 1, 1, 2, 4)).follow(2, epoch=5)
        diverge(subject, *reported)
        assert subject.log.end_offset == kept, reported
        assert last_fetch(subject).fetch_offset == kept


def test_committed_records_are_never_truncated() -> None:
    log = log_with(1, 1, 1)
    log.advance_high_watermark(2)
    subject = ReplicaFixture(log=log).follow(2, epoch=5)
    with pytest.raises(CommittedRecordsLost):
        diverge(subject, 1, 1)
    assert log.end_offset == 3


def test_a_voter_set_in_truncated_records_is_ignored() -> None:
    log = log_of(dynamic(1, 2))
    log.append(control_of(2, 2, voters_record(dynamic(1, 2, 3))), 2)
    subject = ReplicaFixture(voters=VoterSet(), log=log).follow(2, epoch=5)
    assert list(subject.quorum.voter_ids) == [1, 2, 3]
    diverge(subject, 1, 2)
    assert list(subject.quorum.voter_ids) == [1, 2]


def test_a_snapshot_is_fetched_in_chunks_and_becomes_the_log_start() -> None:
    subject = ReplicaFixture(log=log_with(1)).follow(2, epoch=5)
    snapshot_id = SnapshotId(40, 4)
    named = fetch.SnapshotId(end_offset=40, epoch=4)
    subject.respond(subject.requests_of(FetchRequest)[-1], fetch_response(2, 5, snapshot_id=named))
    data = snapshot_of(dynamic(1, 2, 3))
    piece(subject, snapshot_id, data[:50], 0, size=len(data))
    assert subject.requests_of(FetchSnapshotRequest)
    piece(subject, snapshot_id, data[50:], 50, size=len(data))
    assert [effect.snapshot_id for effect in subject.all_of(SnapshotLoaded)] == [snapshot_id]
    assert (subject.log.start_offset, subject.log.end_offset, subject.quorum.high_watermark) == (40, 40, 40)
    assert (last_fetch(subject).fetch_offset, last_fetch(subject).last_fetched_epoch) == (40, 4)
    assert subject.quorum.kraft_version == 1


def test_a_corrupt_snapshot_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = ReplicaFixture(log=log_with(1)).follow(2, epoch=5)
    named = fetch.SnapshotId(end_offset=40, epoch=4)
    data = snapshot_of(dynamic(1, 2, 3))
    with monkeypatch.context() as patch:
        patch.setattr(subject.log, "finish_snapshot", lambda snapshot_id: False)
        subject.respond(subject.requests_of(FetchRequest)[-1], fetch_response(2, 5, snapshot_id=named))
        piece(subject, SnapshotId(40, 4), data, 0, size=len(data))
    assert not subject.all_of(SnapshotLoaded)
    assert subject.log.end_offset == 1
    subject.wait(20)
    subject.respond(subject.requests_of(FetchRequest)[-1], fetch_response(2, 5, snapshot_id=named))
    piece(subject, SnapshotId(40, 4), data, 0, size=len(data))
    assert subject.all_of(SnapshotLoaded)
    assert subject.log.end_offset == 40


def test_a_snapshot_is_fetched_again_after_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    subject = ReplicaFixture(log=log_with(1)).follow(2, epoch=5)
    named = fetch.SnapshotId(end_offset=40, epoch=4)
    data = snapshot_of(dynamic(1, 2, 3))
    with monkeypatch.context() as patch:
        patch.setattr(subject.log, "append_snapshot_chunk", refuse)
        subject.respond(subject.requests_of(FetchRequest)[-1], fetch_response(2, 5, snapshot_id=named))
        piece(subject, SnapshotId(40, 4), data, 0, size=len(data))
    subject.wait(20)
    subject.respond(subject.requests_of(FetchRequest)[-1], fetch_response(2, 5, snapshot_id=named))
    piece(subject, SnapshotId(40, 4), data, 0, size=len(data))
    assert subject.log.end_offset == 40


def test_a_snapshot_that_was_deleted_is_abandoned() -> None:
    subject = ReplicaFixture().follow(2, epoch=5)
    named = fetch.SnapshotId(end_offset=40, epoch=4)
    subject.respond(subject.requests_of(FetchRequest)[-1], fetch_response(2, 5, snapshot_id=named))
    piece(subject, SnapshotId(0, 0), b"", 0, error_code=ErrorCode.SNAPSHOT_NOT_FOUND)
    subject.wait(20)
    assert subject.requests_of(FetchRequest)


def test_a_voter_without_responses_starts_an_election() -> None:
    subject = ReplicaFixture().follow()
    subject.now += 1999
    subject.respond_to_fetch()
    subject.wait(1999)
    assert state_of(subject) is State.FOLLOWER
    subject.wait(1)
    assert state_of(subject) is State.PROSPECTIVE


def test_an_observer_finds_the_leader_through_the_voters() -> None:
    subject = ReplicaFixture(9)
    (send,) = subject.requests_of(FetchRequest)
    assert send.to_node == 1
    subject.respond(send, fetch_response(3, 4, error_code=ErrorCode.FENCED_LEADER_EPOCH))
    assert (subject.state, subject.quorum.leader_id) == (State.FOLLOWER, 3)
    (send,) = subject.requests_of(FetchRequest)
    assert send.to_node == 3
    subject.respond(send, None)
    (send,) = subject.requests_of(FetchRequest)
    assert send.to_node != 3, "another node may be the leader now"
    subject.wait(60_000)
    assert subject.state is State.FOLLOWER


def test_an_observer_replaces_an_unresponsive_leader() -> None:
    subject = ReplicaFixture(9)
    error = ErrorCode.FENCED_LEADER_EPOCH
    subject.respond(subject.requests_of(FetchRequest)[0], fetch_response(3, 4, error_code=error))
    (pending,) = subject.requests_of(FetchRequest)
    subject.wait(2000)
    (send,) = subject.requests_of(FetchRequest)
    assert (pending.to_node, send.to_node) == (3, 1)
    subject.respond(send, fetch_response(2, 5, error_code=error))
    assert (subject.state, subject.quorum.leader_id) == (State.FOLLOWER, 2)


def test_an_observer_finds_the_leader_through_bootstrap_servers() -> None:
    bootstrap = (Endpoint("CONTROLLER", "anywhere", 9093),)
    subject = ReplicaFixture(9, voters=VoterSet(), bootstrap=bootstrap)
    (send,) = subject.requests_of(FetchRequest)
    assert (send.to_node, send.endpoints) == (-2, bootstrap)
    response = fetch_response(3, 4, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    node = fetch.NodeEndpoint(node_id=3, host="host-3", port=1)
    subject.respond(send, fetch.FetchResponse(responses=response.responses, node_endpoints=(node,)))
    assert subject.quorum.leader_endpoints == (Endpoint("CONTROLLER", "host-3", 1),)


def test_a_node_sends_no_request_to_its_own_endpoint() -> None:
    own = (Endpoint("CONTROLLER", "me", 9093),)
    subject = ReplicaFixture(9, voters=VoterSet(), bootstrap=own, own_endpoints=own)
    assert not subject.requests_of(FetchRequest)


def test_a_request_without_response_times_out() -> None:
    subject = ReplicaFixture(9, voters=static(1), request_timeout_ms=700, fetch_max_wait_ms=300)
    assert subject.requests_of(FetchRequest)
    subject.wait(999)
    assert not subject.requests_of(FetchRequest)
    subject.wait(1)
    subject.wait(20)
    assert subject.requests_of(FetchRequest)


def test_a_fetch_from_offset_0_returns_the_records_of_the_leader() -> None:
    leader = ReplicaFixture().lead()
    assert fetched_offsets(leader.fetch_as(2, 0, 0)) == 1


def fetched_offsets(partition: fetch.PartitionData) -> int:
    """Return the number of fetched records, counted by their batches."""
    assert partition.records is not None
    return sum(header.record_count for _, header in iterate_headers(partition.records))
