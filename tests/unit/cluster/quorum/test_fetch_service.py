"""The leader's responses to fetches, and the commits that fetches cause."""

from __future__ import annotations

import pytest

from tests.sim.quorum.safeguards import Safeguard
from tests.unit.cluster.quorum.logs import log_of
from tests.unit.cluster.quorum.replica_fixture import (
    ReplicaFixture,
    dynamic,
    fetch_of,
    log_with,
    partition_data,
    static,
    vote_for,
)
from tidelog.cluster.quorum.effects import HighWatermark, RecordsAppended
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import FetchRequest


def test_a_record_on_a_majority_of_voters_is_committed() -> None:
    subject = ReplicaFixture().lead()
    subject.append(b"a")
    assert subject.quorum.high_watermark == 0
    subject.fetch_as(2, 1, 1)
    assert subject.quorum.high_watermark == 1, "the first record of the leader"
    subject.fetch_as(2, 2, 1)
    assert [effect.offset for effect in subject.all_of(HighWatermark)] == [2]


def test_only_flushed_records_of_the_leader_count_towards_the_majority() -> None:
    subject = ReplicaFixture(slow_disk=True)
    subject.lead()
    subject.fetch_as(2, 1, 1)
    assert subject.quorum.high_watermark == 0
    subject.write()
    assert subject.quorum.high_watermark == 1


def test_followers_can_commit_records_that_the_leader_has_not_flushed() -> None:
    subject = ReplicaFixture(slow_disk=True)
    subject.lead()
    subject.fetch_as(2, 1, 1)
    subject.fetch_as(3, 1, 1)
    assert subject.quorum.high_watermark == 1


def test_earlier_epochs_are_committed_only_with_a_record_of_the_current_epoch() -> None:
    subject = ReplicaFixture(log=log_with(1, 1, 2)).lead()
    assert subject.log.end_offset == 4
    subject.fetch_as(2, 3, 2)
    assert subject.quorum.high_watermark == 0
    subject.fetch_as(2, 4, 3)
    assert subject.quorum.high_watermark == 4


def test_without_the_safeguard_earlier_epochs_are_committed() -> None:
    subject = ReplicaFixture(log=log_with(1, 1, 2), disabled=[Safeguard.COMMIT_ONLY_OWN_EPOCH]).lead()
    subject.fetch_as(2, 3, 2)
    assert subject.quorum.high_watermark == 3


def test_the_high_watermark_is_not_reported_before_it_is_known() -> None:
    subject = ReplicaFixture().lead()
    assert subject.fetch_as(3, 0, 0).high_watermark == -1
    assert subject.fetch_as(2, 1, 1, max_wait_ms=0).high_watermark == 1


def test_a_fetch_waits_for_records_and_returns_them_before_the_leader_flushed_them() -> None:
    subject = ReplicaFixture(slow_disk=True)
    subject.lead()
    source = object()
    subject.step(RequestReceived(source, fetch_of(2, 1, 1, 1)))
    assert subject.response_to(source) is None
    subject.append(b"a")
    assert partition_data(subject.response_to(source)).records
    kinds = [type(effect).__name__ for effect in subject.effects]
    assert kinds == ["RecordsAppended", "Respond", "Persist"]


def test_a_fetch_with_a_high_watermark_waits_for_a_change_of_it() -> None:
    subject = ReplicaFixture().lead()
    source = object()
    subject.step(RequestReceived(source, fetch_of(2, 1, 1, 1, high_watermark=1)))
    assert subject.response_to(source) is None
    subject.append(b"a")
    subject.step(RequestReceived(source, fetch_of(2, 2, 1, 1, high_watermark=2)))
    assert subject.quorum.high_watermark == 2
    assert subject.response_to(source) is None
    assert subject.fetch_as(3, 2, 1, high_watermark=1).high_watermark == 2


def test_an_expired_fetch_returns_no_records() -> None:
    subject = ReplicaFixture().lead()
    source = object()
    subject.step(RequestReceived(source, fetch_of(2, 1, 1, 1, max_wait_ms=300)))
    subject.wait(299)
    assert subject.response_to(source) is None
    subject.wait(1)
    assert not partition_data(subject.response_to(source)).records


def test_waiting_fetches_are_bounded_and_limited_to_one_per_replica() -> None:
    subject = ReplicaFixture(parked_fetches_max=2)
    subject.lead()
    first, second, third = object(), object(), object()
    subject.step(RequestReceived(first, fetch_of(2, 1, 1, 1)))
    subject.step(RequestReceived(second, fetch_of(2, 1, 1, 1)))
    assert subject.response_to(first) is not None, "its connection is lost"
    assert subject.response_to(second) is None
    subject.step(RequestReceived(object(), fetch_of(3, 1, 1, 1)))
    subject.step(RequestReceived(third, fetch_of(4, 1, 1, 1)))
    assert subject.response_to(third) is not None


def test_a_waiting_request_gets_an_error_when_leadership_ends() -> None:
    subject = ReplicaFixture().lead()
    source = object()
    subject.step(RequestReceived(source, fetch_of(2, 1, 1, 1)))
    subject.send_request(vote_for(3, 7, last=(1, 9)))
    partition = partition_data(subject.response_to(source))
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (-1, 7)


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [(3, 1, (1, 2)), (9, 2, (2, 3)), (1, 0, (0, 0)), (2, 1, None), (3, 2, None), (0, 0, None)],
    ids=["other records", "too long", "epochs before all", "earlier", "the end", "empty"],
)
def test_a_diverging_log_gets_the_offset_of_the_divergence(
    offset: int, epoch: int, expected: tuple[int, int] | None
) -> None:
    subject = ReplicaFixture(log=log_with(1, 1, 2)).lead()
    partition = subject.fetch_as(2, offset, epoch)
    diverging = partition.diverging_epoch
    if expected is None:
        assert (diverging.epoch, diverging.end_offset) == (-1, -1)
        assert partition.records
    else:
        assert (diverging.epoch, diverging.end_offset) == expected
        assert not partition.records
        assert subject.quorum.high_watermark == 0


def test_a_fetch_of_another_directory_does_not_count_as_the_voters() -> None:
    subject = ReplicaFixture(voters=static(), log=log_of(dynamic(1, 2, 3))).lead()
    end_offset = subject.log.end_offset
    subject.fetch_as(2, end_offset, subject.epoch, disk=2)
    assert subject.quorum.high_watermark == 0
    subject.fetch_as(2, end_offset, subject.epoch)
    assert subject.quorum.high_watermark == end_offset


def test_without_the_safeguard_any_directory_counts() -> None:
    disabled = [Safeguard.DIRECTORY_ID_CHECKED]
    subject = ReplicaFixture(voters=static(), log=log_of(dynamic(1, 2, 3)), disabled=disabled).lead()
    subject.fetch_as(2, subject.log.end_offset, subject.epoch, disk=2)
    assert subject.quorum.high_watermark == subject.log.end_offset


def test_error_responses_name_the_leader_and_its_endpoint() -> None:
    subject = ReplicaFixture().follow(2, epoch=3)
    for epoch, error in [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]:
        response = subject.send_request(fetch_of(3, 0, 0, epoch))
        partition = partition_data(response)
        assert partition.error_code == error
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 3)
        assert [(node.node_id, node.host) for node in response.node_endpoints] == [(2, "host-2")]
    old = subject.send_request(fetch_of(3, 0, 0, 3), version=15)
    assert old.node_endpoints == ()


@pytest.mark.parametrize(
    "request_", [fetch_of(2, -1, 0, 1), fetch_of(2, 0, 2, 1), fetch_of(2, 0, -1, 1), fetch_of(1, 0, 0, 1)]
)
def test_invalid_fetches_are_refused(request_: FetchRequest) -> None:
    subject = ReplicaFixture().lead()
    assert partition_data(subject.send_request(request_)).error_code == ErrorCode.INVALID_REQUEST


def test_fetches_of_another_cluster_are_refused() -> None:
    subject = ReplicaFixture().lead()
    response = subject.send_request(fetch_of(2, 0, 0, 1, cluster_id="another"))
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_records_are_appended_as_one_batch_in_the_current_epoch() -> None:
    subject = ReplicaFixture().lead()
    subject.append(b"a", b"b", b"c")
    (appended,) = subject.all_of(RecordsAppended)
    assert (appended.context, appended.base_offset, appended.last_offset, appended.epoch) == (
        "context",
        1,
        3,
        1,
    )
    assert len(subject.log.batches) == 2
