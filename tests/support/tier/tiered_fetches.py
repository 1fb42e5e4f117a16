"""Fetches at a broker with local and remote records, from remote storage that the test scripts."""

from __future__ import annotations

from typing import cast

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.logs.partition_logs import append, batch
from tests.support.replicas.replica_manager import NODE, FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.tier.scripted_reader import FakeTier, move_to_remote
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.fetch import PartitionData as FetchedPartition
from tidelog.remote.reading.requests import RemoteRead


class TieredBroker:
    """Three partitions with offsets 0 to 5; of the first two, 0 to 3 are in remote storage only."""

    def __init__(self, max_wait_ms: int = 500) -> None:
        self.clock = ManualClock()
        self.replicas = Replicas()
        self.timers = Timers(self.clock.monotonic_ms)
        self.fetches = Purgatory("Fetch", self.timers)
        self.tier = FakeTier(self.timers, max_wait_ms)
        self.traffic = TopicTraffic()
        manager = self.replicas.manager
        self.fetch_handler = FetchHandler(
            manager,
            FetchSessionCache(10, lambda: 1),
            self.fetches,
            self.traffic,
            self.clock,
            CurrentLeaders(lambda: self.replicas.image, manager),
            FetchOptions(
                max_bytes=50_000_000,
                slices=Slices(self.clock),
                remote=self.tier.access,
                authorizer=ALLOW_EVERYTHING,
            ),
        )
        self.replicas.register(1, 2)
        self.topic_id = self.replicas.create(
            "t", 3, remote_storage_enable="true", local_retention_bytes="0", isr=(1, 2), leader=NODE
        )
        for index in range(3):
            log = self.partition(index).log
            for first in range(0, 6, 2):
                append(log, f"{first}", f"{first + 1}")
                log.roll(NOW_MS)
            if index < 2:
                move_to_remote(log, 4, NOW_MS)

    def partition(self, index: int = 0) -> Partition:
        return self.replicas.manager.partition(TopicPartition("t", index))

    def fetch(
        self,
        *offsets: int,
        min_bytes: int = 1,
        max_wait_ms: int = 10_000,
        max_bytes: int = 1_000_000,
        partition_max_bytes: int = 100_000,
        isolation_level: int = 0,
        replica_id: int = -1,
        session_epoch: int = -1,
        last_fetched_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> FakeRequest:
        """Fetch from partition 0, 1, ... at these offsets."""
        partitions = tuple(
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=leader_epoch,
                last_fetched_epoch=last_fetched_epoch,
            )
            for index, offset in enumerate(offsets)
        )
        message = FetchRequest(
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_epoch=session_epoch,
            topics=(FetchTopic(topic="t", partitions=partitions),),
        )
        request = FakeRequest(message, 12)
        request.on_abandoned = None
        self.fetch_handler.handle(request)
        return request

    def pass_ms(self, delay_ms: int) -> None:
        self.clock.now_ms += delay_ms
        self.timers.advance()


def partitions_of(request: FakeRequest) -> list[FetchedPartition]:
    return list(cast(FetchResponse, request.response).responses[0].partitions)


def remote_read(*values: str, first_offset: int = 0) -> RemoteRead:
    records = bytes(batch(values, base_offset=first_offset))
    return RemoteRead(records, first_offset + len(values))
