"""A leader whose handlers of Produce and Fetch get requests directly."""

from __future__ import annotations

from typing import cast

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.replicas.replica_manager import FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.scripted_coordinator import VerificationFixture
from tidelog.base.log_limit import LogLimit
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.produce import ProduceHandler
from tidelog.broker.api.handlers.produce_append import ProduceAppender
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.fetch import PartitionData as FetchedPartition
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.record import read_records


def batch(*values: bytes, timestamp: int = NOW_MS) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp, None, value)
    return bytes(builder.build())


class LeaderBroker:
    """The two handlers over partitions, with a clock that the test advances."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.replicas = Replicas()
        self.timers = Timers(self.clock.monotonic_ms)
        self.produces = Purgatory("Produce", self.timers)
        self.fetches = Purgatory("Fetch", self.timers)
        self.traffic = TopicTraffic()
        flusher = cast(Flusher, None)
        manager = self.replicas.manager
        leaders = CurrentLeaders(lambda: self.replicas.image, manager)
        self.verification = VerificationFixture(self.replicas, self.clock)
        self._produce = ProduceHandler(
            ProduceAppender(
                manager,
                self.fetches,
                self.traffic,
                LogLimit(self.clock.monotonic_ms),
                authorizer=ALLOW_EVERYTHING,
            ),
            manager,
            self.produces,
            flusher,
            leaders,
            self.verification.verifier,
            Slices(self.clock),
        )
        self._fetch = FetchHandler(
            manager,
            FetchSessionCache(10, lambda: 1),
            self.fetches,
            self.traffic,
            self.clock,
            leaders,
            FetchOptions(max_bytes=50_000_000, slices=Slices(self.clock), authorizer=ALLOW_EVERYTHING),
        )

    def produce(
        self,
        records: bytes | None,
        *,
        topic: str = "t",
        partition: int = 0,
        acks: int = 1,
        version: int = 9,
        client_id: str = "test",
    ) -> FakeRequest:
        data = PartitionProduceData(index=partition, records=records)
        message = ProduceRequest(
            acks=acks,
            timeout_ms=1_000,
            topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
        )
        return self.send_produce(message, version, client_id)

    def send_produce(self, message: ProduceRequest, version: int = 9, client_id: str = "test") -> FakeRequest:
        request = FakeRequest(message, version, client_id=client_id)
        self._produce.handle(request)
        return request

    def fetch(
        self,
        *partitions: FetchPartition,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        max_bytes: int = 1_000_000,
        isolation_level: int = 0,
        replica_id: int = -1,
        version: int = 12,
    ) -> FakeRequest:
        message = FetchRequest(
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_epoch=-1,
            topics=(FetchTopic(topic="t", partitions=partitions),),
        )
        request = FakeRequest(message, version)
        self._fetch.handle(request)
        return request

    def pass_ms(self, delay_ms: int) -> None:
        self.clock.now_ms += delay_ms
        self.timers.advance()


def fetch_at(offset: int, partition: int = 0, max_bytes: int = 1_000_000, epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=epoch
    )


def produce_result(request: FakeRequest) -> PartitionProduceResponse:
    return cast(ProduceResponse, request.response).responses[0].partition_responses[0]


def fetched_partitions(request: FakeRequest) -> list[FetchedPartition]:
    return list(cast(FetchResponse, request.response).responses[0].partitions)


def values(partition: FetchedPartition) -> list[bytes | None]:
    values_read: list[bytes | None] = []
    data, position = bytes(partition.records or b""), 0
    while position < len(data):
        records = read_records(data, position)
        values_read += [record.value for record in records]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return values_read
