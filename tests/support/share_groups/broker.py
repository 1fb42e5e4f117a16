"""The handlers of ShareFetch and ShareAcknowledge over logs, a tier and a persister of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from tests.support.clocks.manual_clock import ManualClock
from tests.support.logs.partition_logs import append
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import NODE, FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.share_groups.memory_persister import MemoryPersister
from tests.support.tier.scripted_reader import FakeTier
from tidelog.broker.api.handlers.share_acknowledge import ShareAcknowledgeHandler
from tidelog.broker.api.handlers.share_acknowledgements import ShareAcknowledger, ShareTopics
from tidelog.broker.api.handlers.share_fetch import ShareFetchHandler, ShareFetchParts
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.share_partitions.initial_offset import InitialOffsets
from tidelog.broker.share_partitions.member_sessions import MemberSessions
from tidelog.broker.share_partitions.registry import SharePartitionPorts, SharePartitions
from tidelog.broker.share_partitions.settings import ShareDeliveryConfig, ShareGroupSettings
from tidelog.broker.share_partitions.share_sessions import ShareSessions
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages import share_acknowledge, share_fetch
from tidelog.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from tidelog.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from tidelog.protocol.steps import Steps

CONFIG = ShareDeliveryConfig(
    group_share_max_share_sessions=4,
    group_share_delivery_count_limit=5,
    group_share_min_delivery_count_limit=2,
    group_share_max_delivery_count_limit=10,
    group_share_partition_max_record_locks=100,
    group_share_min_partition_max_record_locks=100,
    group_share_max_partition_max_record_locks=10_000,
    group_share_record_lock_duration_ms=30_000,
    group_share_min_record_lock_duration_ms=1_000,
    group_share_max_record_lock_duration_ms=60_000,
)
Acknowledged = tuple[int, int, Sequence[int]]
"""First offset, last offset and types."""


class ShareBroker:
    """A broker with a topic of three partitions; group g reads partition 0 unless others are named."""

    def __init__(self, authorizer: Authorizer = ALLOW_EVERYTHING, **configs: Any) -> None:
        self.clock = ManualClock()
        self.replicas = Replicas()
        self.timers = Timers(self.clock.monotonic_ms)
        self.fetches = Purgatory("ShareFetch", self.timers)
        self.tier = FakeTier(self.timers)
        self.persister = MemoryPersister()
        self.traffic = TopicTraffic()
        manager, slices = self.replicas.manager, Slices(self.clock)
        settings = ShareGroupSettings(CONFIG, lambda: self.replicas.image)
        initial_offsets = InitialOffsets(settings, slices, self.clock, self.tier.reader)
        self.partitions = SharePartitions(
            SharePartitionPorts(
                replicas=manager,
                persister=self.persister,
                timers=self.timers,
                fetches=self.fetches,
                settings=settings,
                initial_offsets=initial_offsets,
            )
        )
        manager.add_listener(self.partitions)
        self.sessions = MemberSessions(ShareSessions(CONFIG.group_share_max_share_sessions), self.partitions)
        topics = ShareTopics(manager, lambda: self.replicas.image, authorizer)
        acknowledger = ShareAcknowledger(self.partitions, topics)
        leaders = CurrentLeaders(lambda: self.replicas.image, manager)
        self.is_enabled = True
        parts = ShareFetchParts(
            replicas=manager,
            share_partitions=self.partitions,
            sessions=self.sessions,
            topics=topics,
            acknowledger=acknowledger,
            leaders=leaders,
            authorizer=authorizer,
            slices=slices,
            traffic=self.traffic,
            remote=self.tier.access,
            max_bytes=50_000_000,
            is_enabled=lambda: self.is_enabled,
        )
        self.fetch_handler = ShareFetchHandler(parts)
        self.acknowledge_handler = ShareAcknowledgeHandler(
            acknowledger, self.sessions, settings, leaders, lambda: self.is_enabled
        )
        self.slices = slices
        self.client = ConnectedClient()
        self.replicas.register(1, 2)
        self.topic_id = self.replicas.create("t", 3, isr=(1, 2), leader=NODE, **configs)

    def partition(self, index: int = 0) -> Partition:
        """Return a partition of the topic."""
        return self.replicas.manager.partition(TopicPartition("t", index))

    def produce(self, *values: str, index: int = 0) -> None:
        """Append one batch, which is committed at once."""
        append(self.partition(index).log, *values)
        self.fetches.check_and_complete(TopicPartition("t", index))

    def send(
        self,
        epoch: int,
        *,
        member: str = "m",
        indexes: Sequence[int] = (0,),
        acknowledged: Sequence[Acknowledged] = (),
        max_wait_ms: int = 500,
        max_records: int = 500,
        client: ConnectedClient | None = None,
        **fields: Any,
    ) -> FakeRequest:
        """Send a ShareFetch; acknowledge records of the first partition."""
        batches = tuple(
            share_fetch.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=tuple(types)
            )
            for first, last, types in acknowledged
        )
        message = ShareFetchRequest(
            **{
                "group_id": "g",
                "member_id": member,
                "share_session_epoch": epoch,
                "max_wait_ms": max_wait_ms,
                "min_bytes": 1,
                "max_bytes": 1_000_000,
                "max_records": max_records,
                "batch_size": 500,
                "topics": (
                    share_fetch.FetchTopic(
                        topic_id=self.topic_id,
                        partitions=tuple(
                            share_fetch.FetchPartition(
                                partition_index=index,
                                acknowledgement_batches=batches if index == indexes[0] else (),
                            )
                            for index in indexes
                        ),
                    ),
                )
                if indexes
                else (),
                **fields,
            }
        )
        request = FakeRequest(message, 2)
        request.connection = cast(Any, SimpleNamespace(client=client or self.client))
        self.fetch_handler.handle(request)
        return request

    async def fetch(self, epoch: int, **fields: Any) -> share_fetch.PartitionData:
        """Send a ShareFetch and return the result of its only partition."""
        response = await self.response(self.send(epoch, **fields))
        ((result,),) = (topic.partitions for topic in response.responses)
        return result

    async def response(self, request: FakeRequest) -> ShareFetchResponse:
        """Return the response, when the persister has finished."""
        await loop_iterations(20)
        return cast(ShareFetchResponse, request.response)

    async def acknowledge(
        self, epoch: int, *acknowledged: Acknowledged, member: str = "m", is_renewal: bool = False
    ) -> share_acknowledge.PartitionData:
        """Send a ShareAcknowledge for partition 0 and return its result."""
        steps = self.acknowledge_steps(epoch, *acknowledged, member=member, is_renewal=is_renewal)
        response = await self.slices.complete(await (await self.slices.complete(steps)))
        return response.responses[0].partitions[0]

    def acknowledge_steps(
        self, epoch: int, *acknowledged: Acknowledged, member: str = "m", is_renewal: bool = False
    ) -> Steps[asyncio.Future[Steps[ShareAcknowledgeResponse]]]:
        """Return the steps that serve a ShareAcknowledge for partition 0."""
        batches = tuple(
            share_acknowledge.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=tuple(types)
            )
            for first, last, types in acknowledged
        )
        partition = share_acknowledge.AcknowledgePartition(acknowledgement_batches=batches)
        message = ShareAcknowledgeRequest(
            group_id="g",
            member_id=member,
            share_session_epoch=epoch,
            is_renew_ack=is_renewal,
            topics=(share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=(partition,)),),
        )
        header = FakeRequest(message, 2).header
        context = RequestContext(header, "PLAINTEXT", "test:1", "User:alice", 0, self.client)
        return self.acknowledge_handler.handle(context, message)

    def pass_ms(self, delay_ms: int) -> None:
        """Let time pass, with its timers."""
        self.clock.now_ms += delay_ms
        self.timers.advance()
