"""The consumer against scripted brokers: truncation, lost sessions, moved leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.network.scripted_broker import (
    Close,
    ReceivedRequest,
    ScriptedBroker,
    ScriptedResponse,
    scripted_brokers,
)
from tests.support.waiting import TIMEOUT_S
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tidelog.protocol.registry import ApiKey

P0 = TopicPartition("tides", 0)


def batch(base_offset: int, count: int = 1, epoch: int = 1) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for number in range(count):
        builder.append(0, None, str(base_offset + number).encode(), ())
    return bytes(builder.build())


def fetch_response(
    records: bytes = b"", error: ErrorCode = ErrorCode.NONE, **fields: object
) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=error, records=records, high_watermark=100)
    topic = FetchableTopicResponse(topic="tides", partitions=(data,))
    return FetchResponse(responses=(topic,), **fields)  # type: ignore[arg-type]


def offset_of(request: object) -> int | None:
    """Return the fetch offset of tides-0, or None if the request does not contain the partition."""
    for topic in request.topics:  # type: ignore[attr-defined]
        for partition in topic.partitions:
            offset: int = partition.fetch_offset
            return offset
    return None


def log(*batches: bytes, until: int, session_id: int = 0) -> Callable[[ReceivedRequest], ScriptedResponse]:
    """Handle fetches as a leader with one record per batch, from offset 0.

    With a `session_id` it supports fetch sessions.
    """
    position = {"offset": 0}

    def handler(request: ReceivedRequest) -> ScriptedResponse:
        offset = offset_of(request.message)
        if offset is not None:
            position["offset"] = offset
        at = position["offset"]
        if at > until:
            return fetch_response(error=ErrorCode.OFFSET_OUT_OF_RANGE)
        return fetch_response(batches[at] if at < until else b"", session_id=session_id)

    return handler


def offsets_response(offset: int, error: ErrorCode = ErrorCode.NONE) -> ListOffsetsResponse:
    entry = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset, leader_epoch=1)
    return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="tides", partitions=(entry,)),))


def epoch_end(epoch: int, end_offset: int) -> OffsetForLeaderEpochResponse:
    entry = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=end_offset)
    return OffsetForLeaderEpochResponse(
        topics=(OffsetForLeaderTopicResult(topic="tides", partitions=(entry,)),)
    )


def consumer_at(broker: ScriptedBroker, **options: Any) -> Consumer:
    settings: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, "fetch_max_wait_ms": 5}
    settings |= {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 20, "auto_offset_reset": "earliest"}
    return Consumer(broker.address, **(settings | options))


async def read(consumer: Consumer, count: int) -> list[int]:
    async with asyncio.timeout(TIMEOUT_S):
        offsets: list[int] = []
        while len(offsets) < count:
            record = await consumer.getone(1_000)
            if record is not None:
                offsets.append(record.offset)
    return offsets


async def test_polling_continues_after_lost_connections_and_sessions() -> None:
    async with scripted_brokers() as [broker]:
        broker.versions[ApiKey.FETCH] = 12
        broker.handlers[ApiKey.LIST_OFFSETS] = lambda request: offsets_response(0)
        leader = log(*(batch(number) for number in range(30)), until=30, session_id=7)
        turn = iter(range(10_000))

        def respond_or_fail(request: ReceivedRequest) -> ScriptedResponse:
            number = next(turn)
            if number % 7 == 3:
                return Close
            if number % 7 == 5:
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return leader(request)

        broker.handlers[ApiKey.FETCH] = respond_or_fail
        async with consumer_at(broker) as consumer:
            consumer.assign([P0])
            assert await read(consumer, 30) == list(range(30))
        epochs = [request.session_epoch for request in broker.requests(ApiKey.FETCH)]
        assert {0, 1, 2} <= set(epochs)


async def test_a_new_leader_epoch_is_validated_before_fetching() -> None:
    async with scripted_brokers() as [broker]:
        broker.versions[ApiKey.FETCH] = 12
        broker.handlers[ApiKey.LIST_OFFSETS] = lambda request: offsets_response(0)
        broker.handlers[ApiKey.FETCH] = log(batch(0), batch(1), batch(2), until=2)
        broker.handlers[ApiKey.OFFSET_FOR_LEADER_EPOCH] = lambda request: epoch_end(1, 2)
        async with consumer_at(broker) as consumer:
            consumer.assign([P0])
            assert await read(consumer, 2) == [0, 1]
            broker.leader_epoch = 2
            broker.handlers[ApiKey.FETCH] = log(batch(0), batch(1), batch(2, epoch=2), until=3)
            broker.handlers[ApiKey.FETCH] = fence_once(broker.handlers[ApiKey.FETCH])
            assert await read(consumer, 1) == [2]
        (question,) = broker.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        (requested,) = question.topics[0].partitions
        assert (requested.leader_epoch, requested.current_leader_epoch) == (1, 2)


def fence_once(
    handler: Callable[[ReceivedRequest], ScriptedResponse],
) -> Callable[[ReceivedRequest], ScriptedResponse]:
    """Respond with FENCED_LEADER_EPOCH to fetches of an older epoch, as the new leader does."""

    def fence(request: ReceivedRequest) -> ScriptedResponse:
        for topic in request.message.topics:
            for partition in topic.partitions:
                if partition.current_leader_epoch < 2:
                    return fetch_response(error=ErrorCode.FENCED_LEADER_EPOCH)
        return handler(request)

    return fence


async def truncate_log(broker: ScriptedBroker, consumer: Consumer) -> None:
    """Read offsets 0-2 of epoch 1; then replace the leader by one that has only offset 0 of epoch 1."""
    broker.versions[ApiKey.FETCH] = 12
    broker.handlers[ApiKey.LIST_OFFSETS] = lambda request: offsets_response(0)
    broker.handlers[ApiKey.FETCH] = log(batch(0), batch(1), batch(2), until=3)
    broker.handlers[ApiKey.OFFSET_FOR_LEADER_EPOCH] = lambda request: epoch_end(1, 1)
    consumer.assign([P0])
    assert await read(consumer, 3) == [0, 1, 2]
    broker.leader_epoch = 2
    new_leader = log(batch(0), batch(1, epoch=2), batch(2, epoch=2), batch(3, epoch=2), until=4)
    broker.handlers[ApiKey.FETCH] = fence_once(new_leader)


async def test_a_truncated_log_is_read_again_from_the_divergence() -> None:
    async with scripted_brokers() as [broker], consumer_at(broker) as consumer:
        await truncate_log(broker, consumer)
        assert await read(consumer, 3) == [1, 2, 3]


async def test_a_truncated_log_without_reset_policy_is_an_error() -> None:
    async with scripted_brokers() as [broker], consumer_at(broker, auto_offset_reset="none") as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 0)
        await truncate_log(broker, consumer)
        with pytest.raises(KafkaError, match="truncated") as caught:
            await read(consumer, 1)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_lookup_with_a_retriable_error_is_repeated() -> None:
    async with scripted_brokers() as [broker]:
        broker.versions[ApiKey.FETCH] = 12
        unavailable = ListOffsetsPartitionResponse(
            partition_index=0, error_code=ErrorCode.LEADER_NOT_AVAILABLE
        )
        responses = [
            ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="tides", partitions=(unavailable,)),)),
            offsets_response(1),
        ]
        broker.handlers[ApiKey.LIST_OFFSETS] = lambda request: (
            responses.pop(0) if len(responses) > 1 else responses[0]
        )
        broker.handlers[ApiKey.FETCH] = log(batch(0), batch(1), until=2)
        async with consumer_at(broker) as consumer:
            consumer.assign([P0])
            assert await read(consumer, 1) == [1]


async def test_a_response_in_flight_during_a_seek_is_discarded() -> None:
    async with scripted_brokers() as [broker]:
        broker.versions[ApiKey.FETCH] = 12
        broker.handlers[ApiKey.LIST_OFFSETS] = lambda request: offsets_response(0)
        broker.handlers[ApiKey.FETCH] = log(*(batch(number) for number in range(20)), until=20)
        async with consumer_at(broker) as consumer:
            consumer.assign([P0])
            assert await read(consumer, 3) == [0, 1, 2]
            for target in (15, 4, 9):
                consumer.seek(P0, target)
                assert await consumer.position(P0) == target
                assert await read(consumer, 2) == [target, target + 1]


async def test_the_partition_reader_continues_after_lost_connections_and_ends_in_time() -> None:
    async with scripted_brokers() as [broker]:
        broker.versions[ApiKey.FETCH] = 12
        leader = log(*(batch(number) for number in range(10)), until=10)
        turn = iter(range(1_000))
        broker.handlers[ApiKey.FETCH] = lambda request: Close if next(turn) % 3 == 1 else leader(request)
        options: dict[str, Any] = {
            "retry_backoff_ms": 5,
            "reconnect_backoff_ms": 5,
            "default_api_timeout_ms": 2_000,
        }
        async with PartitionReader(broker.address, P0, start_offset=2, end_offset=9, **options) as reader:
            assert [record.offset async for record in reader.records()] == list(range(2, 9))
        broker.handlers[ApiKey.FETCH] = leader
        options["default_api_timeout_ms"] = 100
        async with PartitionReader(broker.address, P0, start_offset=10, end_offset=12, **options) as reader:
            with pytest.raises(KafkaError, match="no data at offset 10") as caught:
                _ = [record async for record in reader.records()]
        assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE


async def test_a_reader_of_one_replica_does_not_repeat_a_fetch_of_corrupt_records() -> None:
    async with scripted_brokers() as [broker]:
        broker.versions[ApiKey.FETCH] = 12
        broker.handlers[ApiKey.FETCH] = lambda request: fetch_response(error=ErrorCode.CORRUPT_MESSAGE)
        replica = BrokerId(1)
        async with PartitionReader(
            broker.address, P0, start_offset=0, end_offset=1, replica=replica
        ) as reader:
            with pytest.raises(KafkaError) as caught:
                _ = [record async for record in reader.records()]
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert len(broker.requests(ApiKey.FETCH)) == 1


def with_unstable_offsets(broker: ScriptedBroker, times: int) -> None:
    """Commit offset 1 of group "g"; the first `times` OffsetFetch requests meet an open transaction."""
    codes = [ErrorCode.UNSTABLE_OFFSET_COMMIT] * times + [ErrorCode.NONE]

    def respond_with_offsets(request: ReceivedRequest) -> OffsetFetchResponse:
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        at = OffsetFetchResponsePartitions(partition_index=0, committed_offset=1, error_code=code)
        topic = OffsetFetchResponseTopics(name="tides", partitions=(at,))
        return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=(topic,)),))

    coordinator = Coordinator(key="g", node_id=1, host="127.0.0.1", port=broker.port)
    broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request: FindCoordinatorResponse(
        coordinators=(coordinator,)
    )
    broker.handlers[ApiKey.OFFSET_FETCH] = respond_with_offsets
    broker.versions[ApiKey.FETCH] = 12
    broker.handlers[ApiKey.FETCH] = log(batch(0), batch(1), until=2)


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
async def test_a_start_waits_for_unstable_offsets_with_any_isolation_level(
    isolation_level: str,
) -> None:
    # KIP-447: otherwise the next owner of the partition would process the records of the transaction again.
    async with scripted_brokers() as [broker]:
        with_unstable_offsets(broker, 1)
        options = {"group_id": "g", "enable_auto_commit": False, "isolation_level": isolation_level}
        async with consumer_at(broker, **options) as consumer:
            consumer.assign([P0])
            assert await consumer.position(P0) == 1
            assert (await consumer.committed([P0]))[P0] is not None
        requested = broker.requests(ApiKey.OFFSET_FETCH)
        assert len(requested) == 3 and all(request.require_stable for request in requested)


async def test_polling_waits_for_offsets_of_a_long_transaction() -> None:
    async with scripted_brokers() as [broker]:
        with_unstable_offsets(broker, 40)
        options = {"group_id": "g", "enable_auto_commit": False, "default_api_timeout_ms": 300}
        async with consumer_at(broker, **options) as consumer:
            consumer.assign([P0])
            record = await consumer.getone(10_000)
            assert record is not None and record.offset == 1
