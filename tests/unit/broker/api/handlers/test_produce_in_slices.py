"""Validation of large batches and requests for many partitions yields to other requests."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices, loop_iterations
from tests.support.messages.request_contexts import request_context
from tests.support.replicas.replica_manager import FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.scripted_coordinator import VerificationFixture
from tests.support.waiting import eventually
from tidelog.base.log_limit import LogLimit
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.list_offsets import ListOffsetsHandler
from tidelog.broker.api.handlers.produce import ProduceHandler
from tidelog.broker.api.handlers.produce_append import ProduceAppender
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.partition import ACKS_ALL
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.protocol.batch_builder import NO_PRODUCER, BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.record_skim import RECORDS_PER_STEP
from tidelog.storage.log.partition_log import PartitionLog

MANY = 40 * RECORDS_PER_STEP
SLICES_OF_MANY = MANY // RECORDS_PER_STEP // STEPS_PER_SLICE
LARGE = Compression.ZSTD


class Broker:
    """The handlers over the partitions of one node; ten steps make a slice."""

    def __init__(self) -> None:
        self.replicas = Replicas()
        self.replicas.register(1, 2)
        timers = Timers(self.replicas.clock.monotonic_ms)
        self.fetches, produces = Purgatory("Fetch", timers), Purgatory("Produce", timers)
        self.slices = counted_slices()
        manager, traffic = self.replicas.manager, TopicTraffic()
        leaders = CurrentLeaders(lambda: self.replicas.image, manager)
        verifier = VerificationFixture(self.replicas).verifier
        flusher = cast(Flusher, None)
        self._produce = ProduceHandler(
            ProduceAppender(
                manager,
                self.fetches,
                traffic,
                LogLimit(self.replicas.clock.monotonic_ms),
                authorizer=ALLOW_EVERYTHING,
            ),
            manager,
            produces,
            flusher,
            leaders,
            verifier,
            self.slices,
        )
        self._fetch = FetchHandler(
            manager,
            FetchSessionCache(1, lambda: 1),
            self.fetches,
            traffic,
            self.replicas.clock,
            leaders,
            FetchOptions(max_bytes=1 << 20, slices=self.slices, authorizer=ALLOW_EVERYTHING),
        )
        self._offsets = ListOffsetsHandler(manager, self.slices, ALLOW_EVERYTHING)

    def produce(self, *partitions: tuple[str, int, bytes], acks: int = 1) -> FakeRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for topic, index, records in partitions:
            topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=records))
        data = tuple(TopicProduceData(name=name, partition_data=tuple(each)) for name, each in topics.items())
        request = FakeRequest(ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=data), 9)
        self._produce.handle(request)
        return request

    def fetch(self, topic: str, index: int) -> FakeRequest:
        partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = (FetchTopic(topic=topic, partitions=(partition,)),)
        request = FakeRequest(
            FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics), 12
        )
        self._fetch.handle(request)
        return request

    async def offset_at(self, topic: str, timestamp: int) -> tuple[int, int]:
        requested = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(requested,)),)
        )
        response = await self.slices.complete(self._offsets.handle(request_context(7), request))
        assert isinstance(response, ListOffsetsResponse)
        partition = response.topics[0].partitions[0]
        return partition.error_code, partition.offset

    def log(self, topic: str, index: int = 0) -> PartitionLog:
        return self.replicas.manager.partition(TopicPartition(topic, index)).log


@pytest.fixture
def broker() -> Broker:
    return Broker()


def batch(
    count: int = 1,
    compression: Compression = LARGE,
    key: bytes | None = b"k",
    producer: BatchProducer = NO_PRODUCER,
    **options: int,
) -> bytes:
    builder = BatchBuilder(compression=compression, producer=producer, **options)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(NOW_MS + number, key, b"v")
    return bytes(builder.build())


async def results(request: FakeRequest) -> list[PartitionProduceResponse]:
    await eventually(lambda: bool(request.responses))
    topics = cast(ProduceResponse, request.response).responses
    return [partition for topic in topics for partition in topic.partition_responses]


@pytest.mark.parametrize("codec", [Compression.NONE, *list(Compression)[1:]])
@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup_policy": "compact"},
        {"compression_type": "gzip"},
        {"compression_type": "lz4", "message_timestamp_type": "LogAppendTime"},
        {"message_timestamp_before_max_ms": "3600000"},
    ],
    ids=["compacted", "gzip", "log append time", "timestamps"],
)
async def test_a_batch_with_many_records_is_validated_in_slices(
    broker: Broker, configs: dict[str, Any], codec: Compression
) -> None:
    broker.replicas.create("t", **configs)
    turns = IterationCounter()
    request = broker.produce(("t", 0, batch(MANY, codec)))
    if not request.responses:
        assert broker.log("t").log_end_offset == 0, "nothing is in the log before all is checked"
    (result,) = await results(request)
    turns.stop()
    assert (result.error_code, result.base_offset) == (0, 0)
    assert broker.log("t").log_end_offset == MANY
    if configs.get("compression_type") != codec.name.lower():
        assert broker.slices.slice_count >= SLICES_OF_MANY
        assert turns.count >= SLICES_OF_MANY - 2


async def test_records_refused_late_in_a_large_batch_are_reported(broker: Broker) -> None:
    broker.replicas.create("t", cleanup_policy="compact")
    builder = BatchBuilder(compression=LARGE)
    for number in range(MANY):
        builder.append(NOW_MS, None if number in (7, MANY - 1) else b"k", b"v")
    (result,) = await results(broker.produce(("t", 0, bytes(builder.build()))))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [7, MANY - 1]
    assert broker.log("t").log_end_offset == 0


async def test_a_small_batch_of_a_compacted_topic_is_appended_at_once(broker: Broker) -> None:
    broker.replicas.create("t", cleanup_policy="compact")
    for codec in Compression:
        request = broker.produce(("t", 0, batch(20, codec)))
        assert cast(ProduceResponse, request.response).responses[0].partition_responses[0].error_code == 0
    assert broker.slices.pending_count == 0


async def test_partitions_of_a_request_are_appended_in_slices_and_readable_at_once(broker: Broker) -> None:
    broker.replicas.create("t", 100)
    waiting = broker.fetch("t", 3)
    request = broker.produce(*(("t", index, batch()) for index in range(100)))
    assert not request.responses
    await eventually(lambda: bool(waiting.responses))
    assert not request.responses, "a fetch of the first partitions does not wait for the last"
    assert [result.error_code for result in await results(request)] == [0] * 100
    assert broker.slices.slice_count >= 100 // STEPS_PER_SLICE


async def test_a_leader_change_between_two_partitions_applies_to_the_second(broker: Broker) -> None:
    topic_id = broker.replicas.create("t", 2, isr=(1, 2), cleanup_policy="compact")
    request = broker.produce(("t", 0, batch(MANY)), ("t", 1, batch(MANY)))
    await eventually(lambda: broker.log("t", 0).log_end_offset == MANY)
    assert not request.responses
    broker.replicas.replay(PartitionChangeRecord(partition_id=1, topic_id=topic_id, leader=2))
    assert [result.error_code for result in await results(request)] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert broker.log("t", 1).log_end_offset == 0


async def test_a_topic_recreated_during_validation_gets_no_records(broker: Broker) -> None:
    topic_id = broker.replicas.create("t", cleanup_policy="compact")
    request = broker.produce(("t", 0, batch(MANY)))
    assert not request.responses
    broker.replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    broker.replicas.create("t", cleanup_policy="delete")
    (result,) = await results(request)
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.log("t").log_end_offset == 0


async def test_concurrent_appends_during_validation_are_kept(broker: Broker) -> None:
    broker.replicas.create("t", cleanup_policy="compact")
    first = broker.produce(("t", 0, batch(MANY)))
    second = broker.produce(("t", 0, batch(3, Compression.NONE)))
    assert [result.base_offset for result in await results(second)] == [0]
    assert [result.base_offset for result in await results(first)] == [3]
    assert broker.log("t").log_end_offset == MANY + 3


async def test_a_sequence_appended_by_another_connection_during_validation_is_a_duplicate(
    broker: Broker,
) -> None:
    """A client that lost its connection sends records again whose first request is still being validated."""
    broker.replicas.create("t", cleanup_policy="compact")
    records = batch(MANY, producer=BatchProducer(producer_id=9, producer_epoch=0, base_sequence=0))
    first, again = broker.produce(("t", 0, records)), broker.produce(("t", 0, records))
    responses = [(await results(first))[0], (await results(again))[0]]
    assert [(response.error_code, response.base_offset) for response in responses] == [(0, 0), (0, 0)]
    assert broker.log("t").log_end_offset == MANY


async def test_no_further_partition_is_appended_after_a_disconnect(broker: Broker) -> None:
    broker.replicas.create("t", 50)
    request = broker.produce(*(("t", index, batch()) for index in range(50)))
    # One turn at a time: a pause could be long enough for all slices.
    for _ in range(1_000):
        if broker.log("t", 0).log_end_offset:
            break
        await asyncio.sleep(0)
    assert broker.log("t", 0).log_end_offset == 1
    assert not request.responses
    request.abandon()
    await loop_iterations(20)
    appended = [index for index in range(50) if broker.log("t", index).log_end_offset]
    assert 0 < len(appended) < 50
    assert broker.slices.pending_count == 0


async def test_validation_ends_when_the_client_disconnects(broker: Broker) -> None:
    broker.replicas.create("t", cleanup_policy="compact")
    request = broker.produce(("t", 0, batch(MANY)))
    request.abandon()
    await eventually(lambda: broker.slices.pending_count == 0)
    assert not request.failed
    assert broker.log("t").log_end_offset == 0


async def test_acks_all_waits_for_followers_after_a_large_batch(broker: Broker) -> None:
    broker.replicas.create("t", isr=(1, 2), cleanup_policy="compact")
    request = broker.produce(("t", 0, batch(MANY)), acks=ACKS_ALL)
    await eventually(lambda: broker.log("t").log_end_offset == MANY)
    await asyncio.sleep(0)
    assert not request.responses
    broker.replicas.manager.partition(TopicPartition("t", 0)).record_follower_fetch(2, MANY, 0, 102)
    assert broker.log("t").high_watermark == MANY


async def test_a_timestamp_lookup_in_a_large_batch_runs_in_slices(broker: Broker) -> None:
    for topic, codec in (("large", LARGE), ("plain", Compression.NONE)):
        broker.replicas.create(topic)
        await results(broker.produce((topic, 0, batch(MANY, codec))))
        before = broker.slices.slice_count
        assert await broker.offset_at(topic, NOW_MS + MANY - 1) == (0, MANY - 1)
        assert broker.slices.slice_count - before >= SLICES_OF_MANY
        before = broker.slices.slice_count
        assert await broker.offset_at(topic, -3) == (0, MANY - 1)
        assert broker.slices.slice_count - before >= SLICES_OF_MANY


async def test_a_timestamp_lookup_that_outlasts_the_leadership_is_refused(broker: Broker) -> None:
    topic_id = broker.replicas.create("t", isr=(1, 2))
    await results(broker.produce(("t", 0, batch(MANY))))
    broker.log("t").advance_high_watermark(MANY)
    looking = asyncio.ensure_future(broker.offset_at("t", NOW_MS + MANY - 1))
    await asyncio.sleep(0)
    assert broker.slices.pending_count
    broker.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    assert (await looking)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
