"""A replica of a partition with three brokers, whose handlers get requests directly."""

from __future__ import annotations

from typing import cast

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.replicas.replica_manager import NODE, FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.scripted_coordinator import VerificationFixture
from tidelog.base.log_limit import LogLimit
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.produce import ProduceHandler
from tidelog.broker.api.handlers.produce_append import ProduceAppender
from tidelog.broker.fetching.fetch_options import FetchOptions, FollowerThrottle, PreferredReadReplicas
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.fetching.replica_selector import same_rack
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
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from tidelog.protocol.messages.fetch import PartitionData as FetchedPartition
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord

SECOND, THIRD = 2, 3
ME = TopicPartition("t", 0)


class HandledCluster:
    """Topic `t` on brokers 1, 2 and 3, as broker 1 serves it; each broker has its own rack."""

    def __init__(
        self,
        *,
        leader: int = NODE,
        isr: tuple[int, ...] = (1, 2, 3),
        min_isr: int = 1,
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
            cast(Flusher, self.replicas.flusher),
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
