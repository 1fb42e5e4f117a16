"""The parts of a node for transactions: produce, markers and group offsets, with partitions on a disk.

The coordinator of the transactions is scripted (`coordinator`). Topic `t` has two partitions, group `g` is
kept in the only partition of `__consumer_offsets`.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

from tests.support.configs import group_config
from tests.support.groups.commits import commit_offsets
from tests.support.groups.ports import group_ports
from tests.support.logs.partition_logs import batch, values_of
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import NODE, FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.scripted_coordinator import ScriptedCoordinator, VerificationFixture
from tidelog.base.log_limit import LogLimit
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.produce import ProduceHandler
from tidelog.broker.api.handlers.produce_append import ProduceAppender
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.api.handlers.txn_offset_commit import TxnOffsetCommitHandler
from tidelog.broker.api.handlers.write_txn_markers import MarkerPurgatories, WriteTxnMarkersHandler
from tidelog.broker.coordinators.consumer_offsets import TransactionalOffsetsLog
from tidelog.broker.coordinators.coordinator_logs import StateTopic, TopicStateLog
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.verification.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from tidelog.broker.coordinators.verification.verifier import VerificationSettings
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.steps import run_steps

T0 = TopicPartition("t", 0)
OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)
TRANSACTIONAL_ID = "tx"
PRODUCER = 7
REQUEST_TIMEOUT_MS = 2_000
ADDS_PARTITIONS_VERSION = 12
"""The first version of Produce that requires transaction.version 2."""


class TransactionalNode:
    """`await started()` first; `await stop()` at the end."""

    def __init__(self, *, isr: tuple[int, ...] = (NODE,), **topic_configs: Any) -> None:
        self.replicas = Replicas()
        self.replicas.register(1, 2, 3)
        self.replicas.create("t", 2, isr=isr, **topic_configs)
        self.replicas.create(GROUP_METADATA_TOPIC, isr=isr)
        self.replicas.create(TRANSACTION_STATE_TOPIC, 5, isr=(2,), leader=2)
        self.clock = self.replicas.clock
        self.timers = Timers(self.clock.monotonic_ms)
        self.fetches = Purgatory("Fetch", self.timers)
        self.produces = Purgatory("Produce", self.timers)
        self.replicas.watch(self.fetches, self.produces, Purgatory("DeleteRecords", self.timers))
        self._verification = VerificationFixture(self.replicas)
        manager = self.replicas.manager
        self.produce_handler = ProduceHandler(
            ProduceAppender(
                manager,
                self.fetches,
                TopicTraffic(),
                LogLimit(self.clock.monotonic_ms),
                authorizer=ALLOW_EVERYTHING,
            ),
            manager,
            self.produces,
            cast(Flusher, self.replicas.flusher),
            CurrentLeaders(lambda: self.replicas.image, manager),
            self._verification.verifier,
            Slices(self.clock),
        )
        self._fetch = FetchHandler(
            manager,
            FetchSessionCache(10, lambda: 1),
            self.fetches,
            TopicTraffic(),
            self.clock,
            CurrentLeaders(lambda: self.replicas.image, manager),
            FetchOptions(max_bytes=50_000_000, slices=Slices(self.clock), authorizer=ALLOW_EVERYTHING),
        )
        self.groups = self._group_service()
        offsets_log = TransactionalOffsetsLog(
            manager,
            self._verification.verifier,
            self.fetches,
            self.clock,
            Compression.NONE,
        )
        self.group_transactions = self.groups.transactions(offsets_log)
        self._markers = WriteTxnMarkersHandler(
            manager,
            self.group_transactions,
            MarkerPurgatories(self.produces, self.fetches),
            self.clock,
            REQUEST_TIMEOUT_MS,
            Slices(self.clock),
        )
        self._offset_commits = TxnOffsetCommitHandler(
            self.group_transactions,
            TopicAccess(lambda: self.replicas.image, Slices(self.clock), ALLOW_EVERYTHING),
        )

    def _group_service(self) -> GroupService:
        topic = StateTopic(name=GROUP_METADATA_TOPIC, num_partitions=1, load_buffer_size=1_000_000)
        lease = LeadershipLease(self.clock, 9_000, self.clock.monotonic_ms)
        log = TopicStateLog(
            topic,
            self.replicas.manager,
            lambda: self.replicas.image,
            self.fetches,
            self.clock,
            lease,
        )
        ports = group_ports(log, self.timers, self.clock)
        return GroupService(group_config(), ports._replace(image=lambda: self.replicas.image))

    async def start(self) -> TransactionalNode:
        """Become the coordinator of the groups."""
        self.groups.start()
        await self.load_groups()
        return self

    async def load_groups(self) -> None:
        """Drop the groups in memory and load them from the log."""
        self.groups.on_resignation(0)
        self.groups.on_leadership(0)
        await loop_iterations()

    async def stop(self) -> None:
        await self.groups.stop()
        await self._verification.add_partitions_manager.close()

    # State for tests

    @property
    def coordinator(self) -> ScriptedCoordinator:
        """Return the scripted transaction coordinator."""
        return self._verification.coordinator

    @property
    def add_partitions_manager(self) -> AddPartitionsToTxnManager:
        """Return the verifier."""
        return self._verification.add_partitions_manager

    def use(self, settings: VerificationSettings) -> None:
        """Use other verification settings."""
        self._verification.settings = settings

    def partition(self, topic_partition: TopicPartition = T0) -> Partition:
        return self.replicas.manager.partition(topic_partition)

    def values(self, topic_partition: TopicPartition = T0) -> list[str]:
        """Return all values of the data records."""
        values = values_of(self.partition(topic_partition).log)
        return [value for value in values if not value.startswith("\0")]

    def last_stable_offset(self, topic_partition: TopicPartition = T0) -> int:
        return self.partition(topic_partition).log.last_stable_offset

    # Requests

    def send(
        self,
        *partitions: int,
        value: str = "a",
        sequence: int = 0,
        epoch: int = 0,
        producer_id: int = PRODUCER,
        transactional_id: str | None = TRANSACTIONAL_ID,
        version: int = 11,
        acks: int = -1,
    ) -> FakeRequest:
        """Send one transactional batch to each of the partitions of `t`, without waiting for a response."""
        records = batch(
            [value],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = tuple(
            PartitionProduceData(index=index, records=bytes(records)) for index in partitions or (0,)
        )
        message = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=(TopicProduceData(name="t", partition_data=data),),
        )
        request = FakeRequest(message, version)
        self.produce_handler.handle(request)
        return request

    def fetch(self, offset: int = 0, *, committed: bool = True, max_wait_ms: int = 0) -> FakeRequest:
        """Fetch the records of partition 0 of `t`, by default with read_committed."""
        fetch_partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
        message = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            isolation_level=int(committed),
            session_epoch=-1,
            topics=(FetchTopic(topic="t", partitions=(fetch_partition,)),),
        )
        request = FakeRequest(message, 12)
        self._fetch.handle(request)
        return request

    async def produce(self, *partitions: int, **options: object) -> list[PartitionProduceResponse]:
        """Send a batch as in `send`; return the results of the partitions."""
        request = self.send(*partitions, **options)  # type: ignore[arg-type]
        await run_until_response(request)
        return list(cast(ProduceResponse, request.response).responses[0].partition_responses)

    async def produce_one(self, **options: object) -> ErrorCode:
        """Produce to partition 0 and return the error of the response."""
        (one,) = await self.produce(**options)
        return ErrorCode(one.error_code)

    async def end(
        self,
        *topic_partitions: TopicPartition,
        commit: bool = True,
        epoch: int = 0,
        producer_id: int = PRODUCER,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        version: int = 2,
    ) -> dict[TopicPartition, ErrorCode]:
        """End the producer's transaction in these partitions; return their results."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            topics=tuple(
                WritableTxnMarkerTopic(name=topic, partition_indexes=(index,))
                for topic, index in topic_partitions
            ),
        )
        return await self.write_markers(marker, version=version)

    async def write_markers(
        self, *markers: WritableTxnMarker, version: int = 2
    ) -> dict[TopicPartition, ErrorCode]:
        context = request_context(ApiKey.WRITE_TXN_MARKERS, version)
        response = await self._markers.handle(context, WriteTxnMarkersRequest(markers=markers))
        return {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        }

    async def commit_offset(
        self,
        offset: int,
        partition: int = 0,
        *,
        topic: str = "t",
        epoch: int = 0,
        producer_id: int = PRODUCER,
        member_id: str = "",
        generation: int = -1,
        group_instance_id: str | None = None,
        metadata: str = "",
        group: str = "g",
        version: int = 4,
    ) -> ErrorCode:
        """Commit an offset of `t` in the producer's transaction."""
        committed = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=TRANSACTIONAL_ID,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=group_instance_id,
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(committed,)),),
        )
        context = request_context(ApiKey.TXN_OFFSET_COMMIT, version)
        response = await self._offset_commits.handle(context, request)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    async def commit_plainly(self, offset: int, partition: int = 0) -> None:
        """Commit an offset outside of transactions."""
        committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="t", topic_id=self._topic_id(), partitions=(committed,))
        request = OffsetCommitRequest(group_id="g", topics=(topic,))
        await commit_offsets(self.groups, Slices(self.clock), request, 9)

    async def delete_offset(self, partition: int = 0) -> None:
        """Delete a committed offset of `t`."""
        deleted = OffsetDeleteRequestPartition(partition_index=partition)
        topic = OffsetDeleteRequestTopic(name="t", partitions=(deleted,))
        await self.groups.delete_offsets(OffsetDeleteRequest(group_id="g", topics=(topic,)))

    def _topic_id(self) -> UUID:
        return self.replicas.image.topics_by_name["t"].id

    async def offset(self, partition: int = 0, *, require_stable: bool = True) -> tuple[int, ErrorCode]:
        """Return the group's committed offset of a partition of `t`."""
        topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(partition,)),)
        requested_group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        (response,) = run_steps(await self.groups.fetch_offsets((requested_group,), require_stable))
        assert not response.error_code, ErrorCode(response.error_code)
        partition_response = response.topics[0].partitions[0]
        return partition_response.committed_offset, ErrorCode(partition_response.error_code)


def request_context(key: ApiKey, version: int) -> RequestContext:
    """Return the context of a request of an anonymous client."""
    header = RequestHeader(key, version, 1, "test")
    return RequestContext(header, "PLAINTEXT", "test:1", "User:ANONYMOUS", 0, ConnectedClient())


async def run_until_response(request: FakeRequest) -> None:
    """Run the event loop until the request has a response or depends on the test."""
    for _ in range(200):
        if not request.is_open:
            return
        await asyncio.sleep(0)
