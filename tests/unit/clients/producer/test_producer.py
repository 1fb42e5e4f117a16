"""The producer against scripted brokers: errors that real brokers seldom return."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.network.scripted_broker import (
    Close,
    ReceivedRequest,
    ScriptedBroker,
    ScriptedResponse,
    Silence,
    responses_in_order,
    scripted_brokers,
)
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.batch import read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.init_producer_id import InitProducerIdResponse
from tidelog.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.protocol.registry import ApiKey


def produce_response(offset: int = 0, error: ErrorCode = ErrorCode.NONE, **fields: object) -> ProduceResponse:
    entry = PartitionProduceResponse(index=0, error_code=error, base_offset=offset, **fields)  # type: ignore[arg-type]
    return ProduceResponse(responses=(TopicProduceResponse(name="tides", partition_responses=(entry,)),))


def batches(broker: ScriptedBroker) -> list[bytes]:
    return [
        bytes(data.records)
        for request in broker.requests(ApiKey.PRODUCE)
        for topic in request.topic_data
        for data in topic.partition_data
    ]


def producer_at(broker: ScriptedBroker, **options: Any) -> Producer:
    settings: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, "linger_ms": 0}
    settings |= {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 20}
    return Producer(broker.address, **(settings | options))


async def test_a_retry_after_a_lost_connection_sends_the_same_bytes() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(Close, produce_response(5))
        async with producer_at(broker) as producer:
            written = await producer.send_and_wait("tides", b"high")
        assert written.offset == 5
        first, second = batches(broker)
        assert first == second
        assert read_header(first).base_sequence == 0


async def test_a_request_to_an_unresponsive_broker_times_out() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(Silence, produce_response(5))
        async with producer_at(broker, request_timeout_ms=100) as producer:
            assert (await producer.send_and_wait("tides", b"high")).offset == 5


async def test_current_leader_in_a_response_is_used_for_the_retry() -> None:
    async with scripted_brokers(2) as [old, new]:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        hint = LeaderIdAndEpoch(leader_id=2, leader_epoch=2)
        endpoint = NodeEndpoint(node_id=2, host="127.0.0.1", port=new.port)
        refusal = produce_response(error=error, current_leader=hint)
        old.handlers[ApiKey.PRODUCE] = responses_in_order(
            ProduceResponse(responses=refusal.responses, node_endpoints=(endpoint,))
        )
        new.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(9))
        async with producer_at(old, retry_backoff_ms=600_000, retry_backoff_max_ms=600_000) as producer:
            written = await asyncio.wait_for(producer.send_and_wait("tides", b"high"), TIMEOUT_S)
        assert written.offset == 9
        assert len(batches(new)) == 1


async def test_metadata_is_refreshed_after_a_leader_change() -> None:
    async with scripted_brokers(2) as [old, new]:

        def refuse(request: ReceivedRequest) -> ScriptedResponse:
            for broker in (old, new):
                broker.leaders[0] = 2
                broker.leader_epoch = 2
            return produce_response(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)

        old.leaders[0] = new.leaders[0] = 1
        old.handlers[ApiKey.PRODUCE] = refuse
        new.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(9))
        async with producer_at(old) as producer:
            assert (await producer.send_and_wait("tides", b"high")).offset == 9


async def test_at_most_five_requests_are_in_flight_and_their_order_is_kept() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(), Silence)
        async with producer_at(broker, batch_size=100) as producer:
            await producer.send_and_wait("tides", b"the broker knows this producer now")
            deliveries = [await producer.send("tides", b"x" * 90) for _ in range(12)]
            await eventually(lambda: len(batches(broker)) == 6)
            await loop_iterations(20)
            assert len(batches(broker)) == 6
            assert [read_header(batch).base_sequence for batch in batches(broker)] == list(range(6))
            await producer.close(timeout_ms=0)
        assert all(isinstance(delivery.exception(), KafkaError) for delivery in deliveries)


async def test_send_waits_for_a_full_buffer_and_then_fails() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = lambda request: Silence
        options = {"batch_size": 1_000, "buffer_memory": 2_000, "max_block_ms": 100}
        producer = producer_at(broker, **options)
        await producer.start()
        await producer.send("tides", b"x" * 900)
        await producer.send("tides", b"x" * 900)
        assert producer.send_nowait("tides", b"x" * 900) is None
        with pytest.raises(KafkaError, match="buffer_memory=2000") as caught:
            await producer.send("tides", b"x" * 900)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await producer.close(timeout_ms=0)


async def test_senders_waiting_for_memory_continue_in_order() -> None:
    async with scripted_brokers() as [broker]:
        offset = iter(range(1_000))
        broker.handlers[ApiKey.PRODUCE] = lambda request: produce_response(next(offset))
        async with producer_at(broker, batch_size=200, buffer_memory=400) as producer:

            async def send(number: int) -> int:
                return (await producer.send_and_wait("tides", b"%03d" % number + b"x" * 150)).offset

            assert await asyncio.gather(*map(send, range(60))) == list(range(60))


async def test_a_refused_sender_lets_the_next_waiting_one_continue() -> None:
    async with scripted_brokers() as [broker]:
        offset = iter(range(1_000))
        broker.handlers[ApiKey.PRODUCE] = lambda request: produce_response(next(offset))
        async with producer_at(
            broker, batch_size=1_000, buffer_memory=1_000, max_block_ms=600_000
        ) as producer:
            await producer.send("tides", b"x" * 800)
            values: list[object] = [b"x" * 800, "no bytes", b"x" * 800, b"x" * 1_000, b"x" * 800]
            sends = [asyncio.create_task(producer.send("tides", value)) for value in values]  # type: ignore[arg-type]
            async with asyncio.timeout(TIMEOUT_S):
                outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [
            asyncio.Future,
            TypeError,
            asyncio.Future,
            KafkaError,
            asyncio.Future,
        ]


async def test_close_fails_all_senders_that_wait_for_memory() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = lambda request: Silence
        producer = producer_at(broker, batch_size=1_000, buffer_memory=1_000, max_block_ms=600_000)
        await producer.start()
        await producer.send("tides", b"x" * 800)
        waiting = [asyncio.create_task(producer.send("tides", b"x" * 800)) for _ in range(3)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(producer.close(timeout_ms=600_000))
        async with asyncio.timeout(TIMEOUT_S):
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["the producer is closed"] * 3
        assert not closing.done()
        closing.cancel()
        await asyncio.wait({closing})


async def test_records_expire_when_no_broker_accepts_them() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(
            produce_response(error=ErrorCode.NOT_ENOUGH_REPLICAS)
        )
        options = {"delivery_timeout_ms": 300, "request_timeout_ms": 200}
        async with producer_at(broker, **options) as producer:
            with pytest.raises(KafkaError) as caught:
                await producer.send_and_wait("tides", b"high")
        # A refusal that arrives at the deadline is itself reported as the reason.
        reasons = {
            ErrorCode.REQUEST_TIMED_OUT: "delivery_timeout_ms is 300",
            ErrorCode.NOT_ENOUGH_REPLICAS: "1 record for tides-0",
        }
        assert reasons[ErrorCode(caught.value.code)] in str(caught.value)


async def test_a_producer_id_is_requested_until_it_is_returned() -> None:
    async with scripted_brokers() as [broker]:
        loading = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        granted = InitProducerIdResponse(producer_id=9, producer_epoch=0)
        broker.handlers[ApiKey.INIT_PRODUCER_ID] = responses_in_order(loading, granted)
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response())
        async with producer_at(broker) as producer:
            await producer.send_and_wait("tides", b"high")
        assert read_header(batches(broker)[0]).producer_id == 9


async def test_a_refused_producer_id_fails_sent_records() -> None:
    async with scripted_brokers() as [broker]:
        refusal = InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        broker.handlers[ApiKey.INIT_PRODUCER_ID] = responses_in_order(refusal)
        async with producer_at(broker) as producer:
            with pytest.raises(KafkaError) as caught:
                await producer.send_and_wait("tides", b"high")
        assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_without_idempotence_no_producer_id_is_requested() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response())
        async with producer_at(broker, enable_idempotence=False, acks=1) as producer:
            await producer.send_and_wait("tides", b"high")
        assert broker.requests(ApiKey.INIT_PRODUCER_ID) == []
        assert read_header(batches(broker)[0]).producer_id == -1
        assert broker.requests(ApiKey.PRODUCE)[0].acks == 1


async def test_a_response_without_the_partition_is_an_error() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(ProduceResponse())
        async with producer_at(broker) as producer:
            with pytest.raises(KafkaError, match="tides-0") as caught:
                await producer.send_and_wait("tides", b"high")
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_topic_may_get_another_id_before_the_response_to_a_produce() -> None:
    old, new = UUID(int=1), UUID(int=2)
    async with scripted_brokers() as [broker]:
        broker.topic_id = old
        producer = producer_at(broker)

        def recreate(request: ReceivedRequest) -> ScriptedResponse:
            broker.topic_id = new
            producer._client.metadata.apply(broker.metadata(), full=False)
            entry = PartitionProduceResponse(index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            return ProduceResponse(
                responses=(TopicProduceResponse(topic_id=old, partition_responses=(entry,)),)
            )

        entry = PartitionProduceResponse(index=0, base_offset=7)
        written = ProduceResponse(
            responses=(TopicProduceResponse(topic_id=new, partition_responses=(entry,)),)
        )
        broker.handlers[ApiKey.PRODUCE] = recreate
        async with producer:
            delivery = await producer.send("tides", b"high")
            await eventually(lambda: broker.topic_id == new)
            broker.handlers[ApiKey.PRODUCE] = responses_in_order(written)
            assert (await delivery).offset == 7


async def test_an_unknown_partition_is_refused_at_once() -> None:
    async with scripted_brokers() as [broker], producer_at(broker) as producer:
        with pytest.raises(KafkaError, match="no partition 7") as caught:
            await producer.send("tides", b"high", partition=7)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_close_sends_buffered_records() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(3))
        producer = producer_at(broker, linger_ms=60_000, delivery_timeout_ms=120_000)
        await producer.start()
        delivery = await producer.send("tides", b"high")
        await producer.close()
        assert (await delivery).offset == 3
        with pytest.raises(KafkaError, match="closed"):
            await producer.send("tides", b"more")


async def test_a_cancelled_close_leaves_no_task() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = lambda request: Silence
        before = asyncio.all_tasks()
        producer = producer_at(broker)
        await producer.start()
        delivery = await producer.send("tides", b"high")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.close(), 0.1)
        assert "the producer was closed" in str(delivery.exception())
        await eventually(lambda: not [task for task in asyncio.all_tasks() - before if is_ours(task)])


def is_ours(task: asyncio.Task[object]) -> bool:
    return task.get_name() in ("tidelog-sender", "tidelog-metadata", "tidelog-producer-id")


async def test_an_error_in_the_application_does_not_lose_sent_records() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(3))
        with pytest.raises(ZeroDivisionError):
            async with producer_at(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
                delivery = await producer.send("tides", b"high")
                raise ZeroDivisionError
        assert (await delivery).offset == 3


async def test_a_cancelled_application_does_not_wait_for_deliveries() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = lambda request: Silence
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(asyncio.CancelledError):
                async with producer_at(broker) as producer:
                    delivery = await producer.send("tides", b"high")
                    raise asyncio.CancelledError
        assert isinstance(delivery.exception(), KafkaError)


async def test_flush_sends_without_linger_and_times_out() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(3), Silence)
        producer = producer_at(broker, linger_ms=60_000, delivery_timeout_ms=120_000)
        await producer.start()
        delivery = await producer.send("tides", b"high")
        await producer.flush()
        assert delivery.done()
        await producer.send("tides", b"never acknowledged")
        with pytest.raises(KafkaError, match="50 ms"):
            await producer.flush(timeout_ms=50)
        await producer.close(timeout_ms=0)


async def test_a_cancelled_delivery_does_not_affect_its_batch() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(3))
        async with producer_at(broker, linger_ms=50) as producer:
            first = await producer.send("tides", b"1")
            second = await producer.send("tides", b"2")
            first.cancel()
            assert (await second).offset == 4


async def test_a_record_that_cannot_be_encoded_is_refused_without_a_change() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(3))
        async with producer_at(broker) as producer:
            for value in ("text", 5):
                with pytest.raises(TypeError):
                    await producer.send("tides", value)  # type: ignore[arg-type]
            assert (await producer.send_and_wait("tides", b"high")).offset == 3
        (batch,) = batches(broker)
        assert read_header(batch).record_count == 1


async def test_deliveries_work_with_gather_and_callbacks() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(10))
        async with producer_at(broker, linger_ms=20) as producer:
            called_with: list[int] = []
            deliveries = [await producer.send("tides", b"high") for _ in range(3)]
            for delivery in deliveries:
                delivery.add_done_callback(lambda done: called_with.append(done.result().offset))
            written = await asyncio.gather(*deliveries)
            assert [entry.offset for entry in written] == [10, 11, 12]
            await eventually(lambda: called_with == [10, 11, 12])


@pytest.mark.parametrize(
    ("timestamp_ms", "expected_text"),
    [
        (1_700_000_000_000.5, "is a float, expected a whole number of ms"),
        (True, "is a bool, expected a whole number of ms"),
        ("1700000000000", "is a str, expected a whole number of ms"),
        (-1, r"timestamp_ms=-1 is not in 0\.\.9223372036854775807"),
        (2**63, r"timestamp_ms=9223372036854775808 is not in 0\.\."),
    ],
)
async def test_an_invalid_timestamp_is_refused_without_a_change_to_its_batch(
    timestamp_ms: object, expected_text: str
) -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.PRODUCE] = responses_in_order(produce_response(3))
        async with producer_at(broker, linger_ms=50) as producer:
            before = await producer.send("tides", b"before", timestamp_ms=1_000)
            with pytest.raises((TypeError, KafkaError), match=expected_text):
                await producer.send("tides", b"high", timestamp_ms=timestamp_ms)  # type: ignore[arg-type]
            after = await producer.send("tides", b"after", timestamp_ms=2**63 - 1)
            assert [(await before).offset, (await after).offset] == [3, 4]
        (batch,) = batches(broker)
        assert read_header(batch).max_timestamp == 2**63 - 1


def broken(builder: BatchBuilder) -> bytearray:
    raise RuntimeError("a bug")


async def test_a_failed_sender_task_fails_all_records_and_accepts_no_more() -> None:
    async with scripted_brokers() as [broker]:
        producer = producer_at(broker, linger_ms=50)
        await producer.start()
        deliveries = [await producer.send("tides", b"high") for _ in range(3)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BatchBuilder, "build", broken)
            await asyncio.wait(deliveries, timeout=TIMEOUT_S)
        async with asyncio.timeout(TIMEOUT_S):
            await producer.flush()
            assert all(delivery.done() for delivery in deliveries)
            assert all("sender task ended" in str(delivery.exception()) for delivery in deliveries)
            with pytest.raises(KafkaError, match="sender task ended"):
                await producer.send("tides", b"more")
            await producer.close()
