"""Fetches of followers and from followers, and requests that wait for replicas, with real logs."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.support.logs.partition_logs import batch
from tests.support.loops.yields import loop_iterations
from tests.support.messages.request_contexts import immediate
from tests.support.replicas.replica_manager import NODE, NOW_MS, FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.scripted_coordinator import VerificationFixture
from tidelog.base.config_definition import ConfigError
from tidelog.base.log_limit import LogLimit
from tidelog.broker.api.handlers.delete_records import DeleteRecordsHandler
from tidelog.broker.api.handlers.describe_producers import DescribeProducersHandler
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.list_offsets import LATEST, ListOffsetsHandler
from tidelog.broker.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.api.handlers.produce import ProduceHandler
from tidelog.broker.api.handlers.produce_append import ProduceAppender
from tidelog.broker.fetching.fetch_options import FetchOptions, FollowerThrottle, PreferredReadReplicas
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.fetching.replica_selector import find_selector, same_rack
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.replication.throttle import ReplicationQuota
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from tidelog.protocol.messages.fetch import PartitionData as FetchedPartition
from tidelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.fence_broker_record import FenceBrokerRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.steps import run_steps
from tidelog.storage.log.partition_log import PartitionLog

SECOND, THIRD = 2, 3
ME = TopicPartition("t", 0)


class Cluster:
    """Topic `t` on brokers 1, 2 and 3, as broker 1 serves it; each broker has its own rack."""

    def __init__(
        self,
        *,
        leader: int = NODE,
        isr: tuple[int, ...] = (1, 2, 3),
        min_isr: int = 1,
        flusher: Flusher | None = None,
    ) -> None:
        self.replicas = Replicas()
        self.replicas.register(1, 2, 3)
        self.topic_id = self.replicas.create(
            "t", isr=isr, replicas=(1, 2, 3), leader=leader, leader_epoch=3, min_insync_replicas=str(min_isr)
        )
        self.timers = Timers(self.replicas.clock.monotonic_ms)
        self.fetches = Purgatory("Fetch", self.timers)
        self.produces = Purgatory("Produce", self.timers)
        self.deletions = Purgatory("DeleteRecords", self.timers)
        self.replicas.watch(self.fetches, self.produces, self.deletions)
        self.quota = ReplicationQuota(window_ms=1_000, window_count=11)
        manager, traffic = self.replicas.manager, TopicTraffic()
        leaders = CurrentLeaders(lambda: self.replicas.image, manager)
        self._produce = ProduceHandler(
            ProduceAppender(
                manager,
                self.fetches,
                traffic,
                LogLimit(self.replicas.clock.monotonic_ms),
                authorizer=ALLOW_EVERYTHING,
            ),
            manager,
            self.produces,
            flusher,
            leaders,
            VerificationFixture(self.replicas).verifier,
            Slices(self.replicas.clock),
        )
        self._fetch = FetchHandler(
            manager,
            FetchSessionCache(10, lambda: 1),
            self.fetches,
            traffic,
            self.replicas.clock,
            leaders,
            FetchOptions(
                max_bytes=50_000_000,
                slices=Slices(self.replicas.clock),
                preferred_read_replicas=PreferredReadReplicas(same_rack, lambda: self.replicas.image.brokers),
                throttle=FollowerThrottle(self.quota, self.replicas.clock),
                authorizer=ALLOW_EVERYTHING,
            ),
        )

    @property
    def partition(self) -> Partition:
        return self.replicas.manager.partition(ME)

    def change(self, **changes: object) -> None:
        record = PartitionChangeRecord(partition_id=0, topic_id=self.topic_id, **changes)  # type: ignore[arg-type]
        self.replicas.replay(record)

    def pass_ms(self, milliseconds: int) -> None:
        self.replicas.clock.now_ms += milliseconds
        self.timers.advance()

    def append(self, *values: str) -> None:
        self.partition.append(batch(list(values)), 1, NOW_MS)

    def produce(self, *values: str, acks: int = -1, version: int = 12) -> FakeRequest:
        data = PartitionProduceData(index=0, records=bytes(batch(list(values))))
        message = ProduceRequest(
            acks=acks, timeout_ms=1_000, topic_data=(TopicProduceData(name="t", partition_data=(data,)),)
        )
        request = FakeRequest(message, version)
        self._produce.handle(request)
        return request

    def fetch(
        self,
        offset: int,
        *,
        broker: int = -1,
        broker_epoch: int | None = None,
        epoch: int = 3,
        last_epoch: int = -1,
        wait_ms: int = 0,
        rack: str = "",
        version: int = 17,
        known_high_watermark: int = 2**63 - 1,
    ) -> FakeRequest:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=0,
            partition_max_bytes=1_000_000,
            high_watermark=known_high_watermark,
        )
        if broker >= 0 and broker_epoch is None:
            broker_epoch = 100 + broker
        has_state = version >= 15
        message = FetchRequest(
            replica_id=-1 if has_state else broker,
            replica_state=ReplicaState(
                replica_id=broker, replica_epoch=-1 if broker_epoch is None else broker_epoch
            )
            if has_state
            else ReplicaState(),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            session_epoch=-1,
            topics=(
                FetchTopic(
                    topic="t" if version < 13 else "", topic_id=self.topic_id, partitions=(partition,)
                ),
            ),
            rack_id=rack,
        )
        request = FakeRequest(message, version)
        self._fetch.handle(request)
        return request


def fetched_partition(request: FakeRequest) -> FetchedPartition:
    response = request.response
    assert isinstance(response, FetchResponse)
    return response.responses[0].partitions[0]


def produce_result(request: FakeRequest) -> PartitionProduceResponse:
    response = request.response
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


def context(version: int) -> RequestContext:
    return RequestContext(
        RequestHeader(0, version, 1, "test"), "PLAINTEXT", "h:1", "User:x", NOW_MS, ConnectedClient()
    )


# -- followers


@pytest.mark.parametrize("version", [12, 14, 15, 17, 18])
def test_a_follower_reads_to_the_log_end_and_advances_the_high_watermark(version: int) -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.append("a", "b")
    first = fetched_partition(cluster.fetch(0, broker=SECOND, version=version))
    assert first.records
    assert (first.error_code, first.high_watermark) == (0, 0)
    second = fetched_partition(cluster.fetch(2, broker=SECOND, version=version))
    assert (second.high_watermark, second.log_start_offset) == (2, 0)
    assert not second.records


def test_a_client_reads_committed_records_only() -> None:
    cluster = Cluster()
    cluster.append("a")
    assert not fetched_partition(cluster.fetch(0)).records
    for broker in (SECOND, THIRD):
        cluster.fetch(1, broker=broker)
    assert fetched_partition(cluster.fetch(0)).records


def test_an_unassigned_replica_a_wrong_epoch_and_a_stale_broker_epoch_are_refused() -> None:
    cluster = Cluster()
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
    cluster = Cluster()
    cluster.append("a", "b")
    assert fetched_partition(cluster.fetch(7, broker=SECOND)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    diverging = fetched_partition(cluster.fetch(5, broker=SECOND, last_epoch=3))
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (3, 2)
    leader = cluster.partition.leader
    assert leader is not None
    assert leader.followers[SECOND].log_end_offset == -1


def test_a_follower_fetch_waits_for_uncommitted_records() -> None:
    cluster = Cluster()
    waiting = cluster.fetch(0, broker=SECOND, wait_ms=500)
    assert waiting.answers == []
    cluster.produce("a", acks=1)
    assert fetched_partition(waiting).records


def test_a_follower_fetch_completes_with_a_new_high_watermark() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.append("a")
    older_fetch = cluster.fetch(1, broker=THIRD, wait_ms=500, version=18, known_high_watermark=0)
    newer_fetch = cluster.fetch(1, broker=THIRD, wait_ms=500)
    assert older_fetch.answers == []
    cluster.fetch(1, broker=SECOND)
    assert fetched_partition(older_fetch).high_watermark == 1
    assert newer_fetch.answers == []


def test_a_follower_fetch_completes_with_a_new_leader_epoch() -> None:
    cluster = Cluster()
    waiting = cluster.fetch(0, broker=SECOND, wait_ms=500)
    cluster.change(leader=SECOND)
    assert fetched_partition(waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_kip_73_a_throttled_follower_outside_the_isr_gets_no_records_but_is_recorded() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.append("a")
    cluster.quota.rate = 10
    cluster.quota.set_topic("t", None)
    assert fetched_partition(cluster.fetch(0, broker=THIRD, wait_ms=500)).records
    waiting = cluster.fetch(0, broker=THIRD, wait_ms=500)
    assert waiting.answers == []
    assert fetched_partition(cluster.fetch(0, broker=SECOND, wait_ms=500)).records
    cluster.pass_ms(501)
    assert not fetched_partition(waiting).records
    cluster.pass_ms(20_000)
    assert fetched_partition(cluster.fetch(0, broker=THIRD, wait_ms=500)).records
    leader = cluster.partition.leader
    assert leader is not None
    assert leader.followers[THIRD].log_end_offset == 0


# -- acks=all


def test_acks_all_is_answered_when_all_in_sync_replicas_have_fetched() -> None:
    cluster = Cluster()
    waiting = cluster.produce("a")
    cluster.fetch(1, broker=SECOND)
    assert waiting.answers == []
    cluster.fetch(1, broker=THIRD)
    assert (produce_result(waiting).error_code, produce_result(waiting).base_offset) == (0, 0)


def test_acks_all_times_out_after_timeout_ms() -> None:
    cluster = Cluster()
    waiting = cluster.produce("a")
    cluster.pass_ms(1_001)
    assert produce_result(waiting).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_acks_all_reports_an_isr_that_shrank_after_the_append() -> None:
    cluster = Cluster(isr=(1, 2), min_isr=2)
    waiting = cluster.produce("a")
    cluster.change(isr=(1,))
    assert waiting.answers == []
    cluster.fetch(1, broker=SECOND)
    _, proposal = cluster.replicas.proposals.history[-1]
    assert proposal.added == SECOND
    assert cluster.partition.log.high_watermark == 0
    cluster.pass_ms(1_001)
    assert produce_result(waiting).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_loss_of_leadership_completes_a_waiting_produce_with_the_new_leader() -> None:
    cluster = Cluster()
    waiting = cluster.produce("a")
    cluster.change(leader=SECOND)
    answer = produce_result(waiting)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (SECOND, 4)
    response = waiting.response
    assert isinstance(response, ProduceResponse)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (SECOND, "host2", 9094)


class HeldFlusher:
    """A flusher whose flushes end when the test calls `finish`."""

    def __init__(self) -> None:
        self.flushes: list[asyncio.Future[None]] = []

    def flush(self, log: PartitionLog) -> asyncio.Future[None]:
        self.flushes.append(asyncio.get_running_loop().create_future())
        return self.flushes[-1]

    async def finish(self) -> None:
        """Complete all flushes and let the waiting requests continue."""
        for flush in self.flushes:
            flush.set_result(None)
        await loop_iterations(5)


@pytest.mark.parametrize("leads_again", [False, True], ids=["follows", "leads again"])
async def test_a_record_truncated_during_its_flush_is_not_acknowledged(
    leads_again: bool,
) -> None:
    """Another leader's record is committed at its offset; the request belongs to an earlier leader epoch."""
    flusher = HeldFlusher()
    cluster = Cluster(flusher=cast(Flusher, flusher))
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
    await flusher.finish()
    assert produce_result(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_record_committed_during_its_flush_is_acknowledged() -> None:
    flusher = HeldFlusher()
    cluster = Cluster(flusher=cast(Flusher, flusher))
    record = ConfigRecord(resource_type=2, resource_name="t", name="flush.messages", value="1")
    cluster.replicas.replay(record)
    waiting = cluster.produce("a")
    cluster.fetch(1, broker=SECOND)
    cluster.fetch(1, broker=THIRD)
    assert waiting.answers == []
    await flusher.finish()
    assert produce_result(waiting).error_code == 0


def test_a_reassigned_partition_gets_another_leader_and_its_log_is_deleted() -> None:
    cluster = Cluster()
    waiting = cluster.produce("a")
    cluster.change(leader=SECOND, isr=(2, 3), replicas=(2, 3))
    assert produce_result(waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ME not in cluster.replicas.manager.partitions
    assert cluster.replicas.logs.get(ME) is None
    assert produce_result(cluster.produce("b")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched_partition(cluster.fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.replicas.replay(RemoveTopicRecord(topic_id=cluster.topic_id))
    assert produce_result(cluster.produce("b")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- requests to a broker that is not the leader


@pytest.mark.parametrize("version", [9, 10, 12])
def test_kip_951_a_follower_returns_the_leader_to_producers(version: int) -> None:
    cluster = Cluster(leader=THIRD)
    request = cluster.produce("a", acks=1, version=version)
    answer = produce_result(request)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    expected = (THIRD, 3) if version >= 10 else (-1, -1)
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == expected
    response = request.response
    assert isinstance(response, ProduceResponse)
    assert [endpoint.node_id for endpoint in response.node_endpoints] == ([THIRD] if version >= 10 else [])


@pytest.mark.parametrize("version", [12, 15, 16])
def test_kip_951_a_fenced_fetch_gets_the_leader(version: int) -> None:
    cluster = Cluster(leader=THIRD)
    request = cluster.fetch(0, epoch=2, version=version)
    answer = fetched_partition(request)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    expected = (THIRD, 3) if version >= 16 else (-1, -1)
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == expected
    response = request.response
    assert isinstance(response, FetchResponse)
    assert [endpoint.node_id for endpoint in response.node_endpoints] == ([THIRD] if version >= 16 else [])


# -- readers near a replica (KIP-392)


def test_a_follower_serves_clients_with_a_rack_up_to_its_high_watermark() -> None:
    cluster = Cluster(leader=SECOND)
    log = cluster.partition.log
    log.append_as_leader(batch(["a", "b"]), 3, NOW_MS)
    assert not fetched_partition(cluster.fetch(0)).records
    log.advance_high_watermark(2)
    assert fetched_partition(cluster.fetch(0)).records
    assert (
        fetched_partition(cluster.fetch(0, version=10, epoch=3)).error_code
        == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert fetched_partition(cluster.fetch(0, broker=THIRD)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_kip_392_an_offset_not_yet_on_the_follower_is_not_available_instead_of_out_of_range() -> None:
    cluster = Cluster(leader=SECOND)
    cluster.partition.log.append_as_leader(batch(["a"]), 3, NOW_MS)
    assert fetched_partition(cluster.fetch(9)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    waiting = cluster.fetch(1, wait_ms=500)
    assert waiting.answers == []


def test_a_consumer_is_redirected_to_the_replica_in_its_rack() -> None:
    cluster = Cluster()
    cluster.append("a")
    for broker in (SECOND, THIRD):
        cluster.fetch(1, broker=broker)
    sent = fetched_partition(cluster.fetch(0, rack="rack3", wait_ms=500))
    assert (sent.preferred_read_replica, sent.error_code, sent.high_watermark) == (THIRD, 0, 1)
    assert not sent.records
    for rack in ("rack1", "elsewhere", ""):
        stays = fetched_partition(cluster.fetch(0, rack=rack))
        assert stays.preferred_read_replica == -1
        assert stays.records


def test_a_consumer_is_not_redirected_to_a_lagging_or_fenced_replica() -> None:
    cluster = Cluster()
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    cluster.fetch(1, broker=THIRD)
    assert fetched_partition(cluster.fetch(2, rack="rack3")).preferred_read_replica == -1
    assert fetched_partition(cluster.fetch(1, rack="rack3")).preferred_read_replica == THIRD
    cluster.change(isr=(1, 2))
    assert fetched_partition(cluster.fetch(1, rack="rack3")).preferred_read_replica == -1
    assert fetched_partition(cluster.fetch(1, rack="rack2")).preferred_read_replica == SECOND
    cluster.replicas.replay(FenceBrokerRecord(id=SECOND, epoch=102))
    assert fetched_partition(cluster.fetch(1, rack="rack2")).preferred_read_replica == -1


def test_replica_selectors_have_kafkas_class_names() -> None:
    prefix = "org.apache.kafka.common.replica."
    assert find_selector(prefix + "RackAwareReplicaSelector") is same_rack
    assert find_selector(prefix + "LeaderSelector") is find_selector(None) is None
    with pytest.raises(ConfigError):
        find_selector("com.example.Mine")


# -- other requests


def list_latest(cluster: Cluster, *, replica_id: int = -1, version: int = 7) -> tuple[int, int]:
    request_partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=(ListOffsetsTopic(name="t", partitions=(request_partition,)),)
    )
    handler = ListOffsetsHandler(
        cluster.replicas.manager, Slices(cluster.replicas.clock), authorizer=ALLOW_EVERYTHING
    )
    answer = immediate(run_steps(handler.handle(context(version), request))).topics[0].partitions[0]
    return answer.error_code, answer.offset


def test_kip_207_list_offsets_waits_for_the_high_watermark_of_the_epoch() -> None:
    cluster = Cluster()
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
    cluster = Cluster(leader=SECOND)
    request_partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=3, leader_epoch=3)
    request = OffsetForLeaderEpochRequest(
        topics=(OffsetForLeaderTopic(topic="t", partitions=(request_partition,)),)
    )
    handler = OffsetForLeaderEpochHandler(cluster.replicas.manager, ALLOW_EVERYTHING)
    answer = run_steps(handler.handle(context(4), request)).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_any_replica_describes_producers() -> None:
    cluster = Cluster(leader=SECOND)
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),))
    handler = DescribeProducersHandler(cluster.replicas.manager, ALLOW_EVERYTHING)
    assert run_steps(handler.handle(context(0), request)).topics[0].partitions[0].error_code == 0


def delete(cluster: Cluster, offset: int) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    request_partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name="t", partitions=(request_partition,)),), timeout_ms=1_000
    )
    return run_steps(
        DeleteRecordsHandler(
            cluster.replicas.manager,
            cluster.deletions,
            Slices(cluster.replicas.clock),
            authorizer=ALLOW_EVERYTHING,
        ).handle(context(2), request)
    )


def outcome(response: DeleteRecordsResponse) -> tuple[int, int]:
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


async def test_delete_records_waits_for_the_log_start_of_every_live_follower() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    waiting = delete(cluster, 1)
    assert isinstance(waiting, asyncio.Future)
    cluster.partition.record_follower_fetch(SECOND, 2, 1, 102)
    assert not waiting.done()
    cluster.partition.record_follower_fetch(THIRD, 2, 1, 103)
    assert outcome(await waiting) == (0, 1)


async def test_delete_records_of_a_repeated_partition_waits_and_responds_once() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.append("a", "b", "c")
    cluster.fetch(3, broker=SECOND)
    requested_partitions = tuple(
        DeleteRecordsPartition(partition_index=0, offset=1 + number % 2) for number in range(1_000)
    )
    topics = tuple(
        DeleteRecordsTopic(name="t", partitions=part)
        for part in (requested_partitions[:500], requested_partitions[500:-1])
    )
    handler = DeleteRecordsHandler(
        cluster.replicas.manager,
        cluster.deletions,
        Slices(cluster.replicas.clock),
        authorizer=ALLOW_EVERYTHING,
    )
    waiting = run_steps(handler.handle(context(2), DeleteRecordsRequest(topics=topics, timeout_ms=1_000)))
    assert (cluster.deletions.delayed_count, cluster.deletions.watched_count) == (1, 1)
    assert cluster.partition.log.log_start_offset == 1, "the last entry counts"
    assert isinstance(waiting, asyncio.Future)
    cluster.pass_ms(1_001)
    (topic,) = (await waiting).topics
    assert [each.error_code for each in topic.partitions] == [ErrorCode.REQUEST_TIMED_OUT]


async def test_delete_records_ends_when_the_client_disconnects() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    waiting = delete(cluster, 1)
    assert isinstance(waiting, asyncio.Future)
    assert cluster.deletions.delayed_count == 1
    waiting.cancel()
    await asyncio.sleep(0)
    assert (cluster.deletions.delayed_count, cluster.deletions.watched_count, len(cluster.timers)) == (
        0,
        0,
        0,
    )


async def test_delete_records_ends_at_its_timeout_or_with_the_leadership() -> None:
    cluster = Cluster(isr=(1, 2))
    cluster.append("a", "b")
    cluster.fetch(2, broker=SECOND)
    late = delete(cluster, 1)
    assert isinstance(late, asyncio.Future)
    cluster.pass_ms(1_001)
    assert outcome(await late) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    lost = delete(cluster, 2)
    assert isinstance(lost, asyncio.Future)
    cluster.change(leader=SECOND)
    assert outcome(await lost) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
