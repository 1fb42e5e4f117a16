"""Two brokers of one topic in one process: the follower's fetcher calls the leader's handlers.

There is no network, but requests and responses are encoded and decoded.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.messages.request_contexts import immediate
from tests.support.replicas.replica_manager import FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.list_offsets import ListOffsetsHandler
from tidelog.broker.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.replication.fetcher import FetcherPorts
from tidelog.broker.replication.fetcher_manager import FetcherManager
from tidelog.broker.replication.remote_tier import FollowerTier
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.throttle import ReplicationQuota
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.list_offsets import ListOffsetsRequest
from tidelog.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tidelog.protocol.registry import APIS, ApiKey
from tidelog.protocol.schema import ApiMessage, MetadataRecord
from tidelog.protocol.steps import run_steps
from tidelog.storage.log.partition_log import PartitionLog

LEADER, FOLLOWER = 1, 2


class LeaderConnection:
    """Replaces BrokerConnection. `break_off` disconnects it, `failure` is raised by the next request."""

    def __init__(self, leader: Replicas, fetch_version: int = 18) -> None:
        self.is_open = True
        self.requests: list[ApiMessage] = []
        self.failure: KafkaError | None = None
        self._fetch_version = fetch_version
        manager = leader.manager
        self._fetch = FetchHandler(
            manager,
            FetchSessionCache(10, iter(range(1, 100)).__next__),
            Purgatory("Fetch", Timers(leader.clock.monotonic_ms)),
            TopicTraffic(),
            leader.clock,
            CurrentLeaders(lambda: leader.image, manager),
            FetchOptions(max_bytes=50_000_000, slices=Slices(leader.clock), authorizer=ALLOW_EVERYTHING),
        )
        self._offsets = ListOffsetsHandler(manager, Slices(leader.clock), ALLOW_EVERYTHING)
        self._epochs = OffsetForLeaderEpochHandler(manager, ALLOW_EVERYTHING)

    def version_of(self, api_key: int, highest: int | None = None) -> int:
        """Return the version to send."""
        return self._fetch_version if api_key == ApiKey.FETCH else APIS[api_key].highest

    async def request(self, message: ApiMessage, response: type[ApiMessage]) -> ApiMessage:
        """Send a request to the leader's handler."""
        # The latency of the network: requests of several partitions overlap.
        await asyncio.sleep(0.001)
        if self.failure is not None or not self.is_open:
            self.is_open = False
            raise self.failure or KafkaError(ErrorCode.NETWORK_EXCEPTION, "cut")
        self.requests.append(message)
        return self.handle(message)

    def handle(self, message: ApiMessage) -> ApiMessage:
        """Return the leader's response at once."""
        version = self.version_of(message.api_key)
        if message.api_key == ApiKey.FETCH:
            request = FakeRequest(message, version)
            self._fetch.handle(request)
            return request.response
        sent = decode(type(message), encode(message, version), version)
        context = RequestContext(
            RequestHeader(message.api_key, version, 1, "test"),
            "PLAINTEXT",
            "test:1",
            "User:x",
            NOW_MS,
            ConnectedClient(),
        )
        response: ApiMessage
        if isinstance(sent, ListOffsetsRequest):
            response = immediate(run_steps(self._offsets.handle(context, sent)))
        else:
            assert isinstance(sent, OffsetForLeaderEpochRequest)
            response = run_steps(self._epochs.handle(context, sent))
        return decode(type(response), encode(response, version), version)

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False

    break_off = close


class ReplicaPair:
    """Broker 1 is leader, broker 2 follower, each with its own disk."""

    def __init__(
        self, fetch_version: int = 18, fetchers: int = 1, *, tier: FollowerTier | None = None
    ) -> None:
        self.leader = Replicas()
        self.follower = Replicas(node_id=FOLLOWER)
        self.quota = ReplicationQuota(window_ms=1_000, window_count=11)
        self.advanced_partitions: list[TopicPartition] = []
        self.connections: list[LeaderConnection] = []
        self.unreachable = 0
        """The number of attempts to connect that fail next."""
        self.flushes: list[asyncio.Future[None]] | None = None
        """The flushes for which the follower waits; None if flushes complete at once."""
        self._fetch_version = fetch_version
        settings = FollowerSettings(
            replica_id=FOLLOWER,
            partition_max_bytes=1 << 20,
            max_bytes=10 << 20,
            min_bytes=1,
            max_wait_ms=0,
            backoff_ms=20,
        )
        ports = FetcherPorts(
            connect=self._connect,
            broker_epoch=lambda: 102,
            on_high_watermark_advanced=self.advanced_partitions.append,
            clock=self.follower.clock,
            quota=self.quota,
            backoff_ms=20,
            tier=tier,
            flush=self._flush,
        )
        self.fetchers = FetcherManager(
            FOLLOWER, fetchers, ports, lambda: FollowerFetcher(settings, throttle=self.quota, tier=tier)
        )
        for broker in (self.leader, self.follower):
            broker.register(LEADER, FOLLOWER)

    def begin(self) -> None:
        """Register the follower and start following."""
        self.follower.manager.add_listener(self.fetchers)
        self.fetchers.start(self.follower.manager.partitions.values())

    async def _flush(self, log: PartitionLog) -> None:
        if self.flushes is not None:
            self.flushes.append(asyncio.get_running_loop().create_future())
            await self.flushes[-1]

    async def _connect(self, leader_id: int) -> BrokerConnection:
        assert leader_id == LEADER
        if self.unreachable:
            self.unreachable -= 1
            raise OSError("no route to host")
        self.connections.append(LeaderConnection(self.leader, self._fetch_version))
        return cast(BrokerConnection, self.connections[-1])

    def create(self, topic: str, partitions: int = 1, **configs: Any) -> None:
        """Create a topic on both brokers, with leader 1 in epoch 3."""
        for broker in (self.leader, self.follower):
            broker.create(
                topic,
                partitions,
                isr=(LEADER, FOLLOWER),
                leader=LEADER,
                leader_epoch=3,
                **configs,
            )

    def replay(self, *records: MetadataRecord) -> None:
        """Apply metadata records on both brokers."""
        for broker in (self.leader, self.follower):
            broker.replay(*records)

    def append(self, topic_partition: TopicPartition, *values: str) -> None:
        """Append at the leader."""
        self.leader.manager.partition(topic_partition).append(batch(list(values)), 1, NOW_MS)

    def logs(self, topic_partition: TopicPartition) -> tuple[PartitionLog, PartitionLog]:
        """Return the leader's and the follower's log."""
        return (
            self.leader.manager.partition(topic_partition).log,
            self.follower.manager.partition(topic_partition).log,
        )

    def are_equal(self, topic_partition: TopicPartition) -> bool:
        """Return whether the two logs have equal bytes and epochs, all committed."""
        leader, follower = self.logs(topic_partition)
        return (
            bytes_of(leader) == bytes_of(follower)
            and leader.leader_epochs.entries == follower.leader_epochs.entries
            and leader.log_end_offset == follower.high_watermark
        )

    async def pass_ms(self, milliseconds: int) -> None:
        """Advance the follower's clock."""
        self.follower.clock.now_ms += milliseconds
        await asyncio.sleep(0)


def bytes_of(log: PartitionLog) -> bytes:
    """Return all local batches of a log."""
    data = bytearray()
    offset = log.local_log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, 1 << 20, at_least_one=True).records
        assert records is not None
        data += records.read()
        before, offset = offset, _end_of(records.read())
        assert offset > before
    return bytes(data)


def _end_of(data: bytes) -> int:
    return max(header.next_offset for _, header in iterate_headers(data))
