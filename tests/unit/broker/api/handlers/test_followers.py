"""Fetches of followers and from followers, and requests that wait for replicas, with real logs."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.messages.request_contexts import immediate
from tests.support.replicas.handled_cluster import (
    ME,
    SECOND,
    THIRD,
    HandledCluster,
    context,
    fetched_partition,
    produce_result,
)
from tests.support.replicas.replica_manager import NODE
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.broker.api.handlers.describe_producers import DescribeProducersHandler
from tidelog.broker.api.handlers.list_offsets import LATEST, ListOffsetsHandler
from tidelog.broker.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.messages.produce import (
    ProduceResponse,
)
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.steps import run_steps

# -- followers


@pytest.mark.parametrize("version", [12, 14, 15, 17, 18])
def test_a_follower_reads_to_the_log_end_and_advances_the_high_watermark(version: int) -> None:
    cluster = HandledCluster(isr=(1, 2))
    cluster.append("a", "b")
    first = fetched_partition(cluster.fetch(0, broker=SECOND, version=version))
    assert first.records
    assert (first.error_code, first.high_watermark) == (0, 0)
    second = fetched_partition(cluster.fetch(2, broker=SECOND, version=version))
    assert (second.high_watermark, second.log_start_offset) == (2, 0)
    assert not second.records


def test_a_client_reads_committed_records_only() -> None:
    cluster = HandledCluster()
    cluster.append("a")
    assert not fetched_partition(cluster.fetch(0)).records
    for broker in (SECOND, THIRD):
        cluster.fetch(1, broker=broker)
    assert fetched_partition(cluster.fetch(0)).records


def test_an_unassigned_replica_a_wrong_epoch_and_a_stale_broker_epoch_are_refused() -> None:
    cluster = HandledCluster()
    assert fetched_partition(cluster.fetch(0, broker=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (
        fetched_partition(cluster.fetch(0, broker=9, epoch=-1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert (
        fetched_partition(cluster.fetch(0, broker=SECOND, epoch=2)).error_code
        == ErrorCode.FENCED_LEADER_EPOCH
    )
    assert (
        fetched_partition(cluster.fetch(0, broker=SECOND, epoch=4)).error_code
        == ErrorCode.UNKNOWN_LEADER_EPOCH
    )
    stale = cluster.fetch(0, broker=SECOND, broker_epoch=50)
    assert fetched_partition(stale).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_out_of_range_or_with_a_diverging_epoch_is_not_recorded() -> None:
    cluster = HandledCluster()
    cluster.append("a", "b")
    assert fetched_partition(cluster.fetch(7, broker=SECOND)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    diverging = fetched_partition(cluster.fetch(5, broker=SECOND, last_epoch=3))
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (3, 2)
    leader = cluster.partition.leader
    assert leader is not None
    assert leader.followers[SECOND].log_end_offset == -1


def test_a_follower_fetch_waits_for_uncommitted_records() -> None:
    cluster = HandledCluster()
    waiting = cluster.fetch(0, broker=SECOND, wait_ms=500)
    assert waiting.responses == []
    cluster.produce("a", acks=1)
    assert fetched_partition(waiting).records


def test_a_follower_fetch_completes_with_a_new_high_watermark() -> None:
    cluster = HandledCluster(isr=(1, 2))
    cluster.append("a")
    older_fetch = cluster.fetch(1, broker=THIRD, wait_ms=500, version=18, known_high_watermark=0)
    newer_fetch = cluster.fetch(1, broker=THIRD, wait_ms=500)
    assert older_fetch.responses == []
    cluster.fetch(1, broker=SECOND)
    assert fetched_partition(older_fetch).high_watermark == 1
    assert newer_fetch.responses == []


def test_a_follower_fetch_completes_with_a_new_leader_epoch() -> None:
    cluster = HandledCluster()
    waiting = cluster.fetch(0, broker=SECOND, wait_ms=500)
    cluster.change(leader=SECOND)
    assert fetched_partition(waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_kip_73_a_throttled_follower_outside_the_isr_gets_no_records_but_is_recorded() -> None:
    cluster = HandledCluster(isr=(1, 2))
    cluster.append("a")
    cluster.quota.rate = 10
    cluster.quota.set_topic("t", None)
    assert fetched_partition(cluster.fetch(0, broker=THIRD, wait_ms=500)).records
    waiting = cluster.fetch(0, broker=THIRD, wait_ms=500)
    assert waiting.responses == []
    assert fetched_partition(cluster.fetch(0, broker=SECOND, wait_ms=500)).records
    cluster.pass_ms(501)
    assert not fetched_partition(waiting).records
    cluster.pass_ms(20_000)
    assert fetched_partition(cluster.fetch(0, broker=THIRD, wait_ms=500)).records
    leader = cluster.partition.leader
    assert leader is not None
    assert leader.followers[THIRD].log_end_offset == 0


# -- acks=all


def test_acks_all_gets_its_response_when_all_in_sync_replicas_have_fetched() -> None:
    cluster = HandledCluster()
    waiting = cluster.produce("a")
    cluster.fetch(1, broker=SECOND)
    assert waiting.responses == []
    cluster.fetch(1, broker=THIRD)
    assert (produce_result(waiting).error_code, produce_result(waiting).base_offset) == (0, 0)


def test_acks_all_times_out_after_timeout_ms() -> None:
    cluster = HandledCluster()
    waiting = cluster.produce("a")
    cluster.pass_ms(1_001)
    assert produce_result(waiting).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_acks_all_reports_an_isr_that_shrank_after_the_append() -> None:
    cluster = HandledCluster(isr=(1, 2), min_isr=2)
    waiting = cluster.produce("a")
    cluster.change(isr=(1,))
    assert waiting.responses == []
    cluster.fetch(1, broker=SECOND)
    _, proposal = cluster.replicas.proposals.history[-1]
    assert proposal.added == SECOND
    assert cluster.partition.log.high_watermark == 0
    cluster.pass_ms(1_001)
    assert produce_result(waiting).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_loss_of_leadership_completes_a_waiting_produce_with_the_new_leader() -> None:
    cluster = HandledCluster()
    waiting = cluster.produce("a")
    cluster.change(leader=SECOND)
    partition = produce_result(waiting)
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (SECOND, 4)
    response = waiting.response
    assert isinstance(response, ProduceResponse)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (SECOND, "host2", 9094)


@pytest.mark.parametrize("leads_again", [False, True], ids=["follows", "leads again"])
async def test_a_record_truncated_during_its_flush_is_not_acknowledged(
    leads_again: bool,
) -> None:
    """Another leader's record is committed at its offset; the request belongs to an earlier leader epoch."""
    cluster = HandledCluster()
    record = ConfigRecord(resource_type=2, resource_name="t", name="flush.messages", value="1")
    cluster.replicas.replay(record)
    waiting = cluster.produce("lost")
    cluster.change(leader=SECOND)
    log = cluster.partition.log
    log.truncate_to(0, NOW_MS)
    log.append_as_follower(batch(["other"], leader_epoch=4), NOW_MS)
    log.advance_high_watermark(1)
    if leads_again:
        cluster.change(leader=NODE)
    await cluster.replicas.flusher.finish()
    assert produce_result(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_record_committed_during_its_flush_is_acknowledged() -> None:
    cluster = HandledCluster()
    record = ConfigRecord(resource_type=2, resource_name="t", name="flush.messages", value="1")
    cluster.replicas.replay(record)
    waiting = cluster.produce("a")
    cluster.fetch(1, broker=SECOND)
    cluster.fetch(1, broker=THIRD)
    assert waiting.responses == []
    await cluster.replicas.flusher.finish()
    assert produce_result(waiting).error_code == 0


def test_a_reassigned_partition_gets_another_leader_and_its_log_is_deleted() -> None:
    cluster = HandledCluster()
    waiting = cluster.produce("a")
    cluster.change(leader=SECOND, isr=(2, 3), replicas=(2, 3))
    assert produce_result(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ME not in cluster.replicas.manager.partitions
    assert cluster.replicas.logs.get(ME) is None
    assert produce_result(cluster.produce("b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched_partition(cluster.fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.replicas.replay(RemoveTopicRecord(topic_id=cluster.topic_id))
    assert produce_result(cluster.produce("b")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- other requests


def list_latest(cluster: HandledCluster, *, replica_id: int = -1, version: int = 7) -> tuple[int, int]:
    request_partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=(ListOffsetsTopic(name="t", partitions=(request_partition,)),)
    )
    handler = ListOffsetsHandler(
        cluster.replicas.manager, Slices(cluster.replicas.clock), authorizer=ALLOW_EVERYTHING
    )
    partition = immediate(run_steps(handler.handle(context(version), request))).topics[0].partitions[0]
    return partition.error_code, partition.offset


def test_kip_207_list_offsets_waits_for_the_high_watermark_of_the_epoch() -> None:
    cluster = HandledCluster()
    cluster.append("a")
    cluster.change(leader=SECOND)
    assert list_latest(cluster) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert list_latest(cluster, replica_id=-2) == (0, 1)
    cluster.change(leader=NODE)
    assert list_latest(cluster) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert list_latest(cluster, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert list_latest(cluster, replica_id=SECOND) == (0, 1)
    for broker in (SECOND, THIRD):
        cluster.fetch(1, broker=broker, epoch=5)
    assert list_latest(cluster) == (0, 1)


def test_only_the_leader_returns_the_end_of_an_epoch() -> None:
    cluster = HandledCluster(leader=SECOND)
    request_partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=3, leader_epoch=3)
    request = OffsetForLeaderEpochRequest(
        topics=(OffsetForLeaderTopic(topic="t", partitions=(request_partition,)),)
    )
    handler = OffsetForLeaderEpochHandler(cluster.replicas.manager, ALLOW_EVERYTHING)
    partition = run_steps(handler.handle(context(4), request)).topics[0].partitions[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_any_replica_describes_producers() -> None:
    cluster = HandledCluster(leader=SECOND)
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),))
    handler = DescribeProducersHandler(cluster.replicas.manager, ALLOW_EVERYTHING)
    assert run_steps(handler.handle(context(0), request)).topics[0].partitions[0].error_code == 0
