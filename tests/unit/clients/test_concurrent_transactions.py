"""Transactions of a producer that several tasks use, and transactions that are abandoned early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.support.network.scripted_broker import (
    ReceivedRequest,
    ScriptedResponse,
    Silence,
    responses_in_order,
)
from tests.support.network.scripted_coordinators import (
    TransactionalBrokers,
    produce_response,
    transactional_brokers,
)
from tests.support.transactions.producers import end_txn_response
from tests.support.waiting import TIMEOUT_S
from tidelog.clients.producer.producer import Producer
from tidelog.clients.transactions.transaction_errors import AbortableTransactionError
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import ApiKey

LINGERING = {"linger_ms": 600_000, "delivery_timeout_ms": 1_200_000}


@pytest.fixture
async def cluster() -> AsyncIterator[TransactionalBrokers]:
    async with transactional_brokers() as both:
        yield both


def written_values(cluster: TransactionalBrokers) -> bytes:
    """Return the bytes of all batches that were sent."""
    return b"".join(
        bytes(data.records)
        for request in cluster.leader.requests(ApiKey.PRODUCE)
        for topic in request.topic_data
        for data in topic.partition_data
    )


async def commit_that_fails(cluster: TransactionalBrokers, producer: Producer) -> asyncio.Task[None]:
    """Start to commit a transaction whose record the leader has refused, and return the commit's task."""
    cluster.leader.handlers[ApiKey.PRODUCE] = responses_in_order(
        produce_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    )
    await producer.init_transactions()
    producer.begin_transaction()
    written = await producer.send("tides", b"high")
    committing = asyncio.create_task(producer.commit_transaction())
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        await written
    return committing


async def test_a_commit_aborted_by_another_task_is_not_reported_as_successful(
    cluster: TransactionalBrokers,
) -> None:
    async with cluster.producer() as producer:
        committing = await commit_that_fails(cluster, producer)
        await producer.abort_transaction()
        with pytest.raises(AbortableTransactionError, match="tides-0"):
            await committing
    assert [request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN)] == [False]


async def test_a_commit_that_fails_during_close_is_not_reported_as_successful(
    cluster: TransactionalBrokers,
) -> None:
    async with cluster.producer() as producer:
        committing = await commit_that_fails(cluster, producer)
    with pytest.raises(AbortableTransactionError, match="tides-0"):
        await committing


async def test_a_send_that_waits_during_an_abort_does_not_write_to_the_next_transaction(
    cluster: TransactionalBrokers,
) -> None:
    cluster.offer_version_2()
    is_known = False

    def metadata(request: ReceivedRequest) -> ScriptedResponse:
        response = cluster.leader.metadata()
        return response if is_known else replace(response, topics=())

    cluster.leader.handlers[ApiKey.METADATA] = cluster.coordinator.handlers[ApiKey.METADATA] = metadata
    async with cluster.producer() as producer:
        await producer.init_transactions()
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                late = asyncio.create_task(producer.send("tides", b"of the first"))
                await asyncio.sleep(0)
                raise ZeroDivisionError
        async with producer.transaction():
            is_known = True
            await producer.send("tides", b"of the second")
            with pytest.raises(KafkaError, match="transaction") as caught:
                await late
            assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    assert b"of the second" in written_values(cluster)
    assert b"of the first" not in written_values(cluster)
    assert [request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN)] == [True]


async def test_a_refused_record_ends_waiting_for_records_that_are_not_sent(
    cluster: TransactionalBrokers,
) -> None:
    cluster.offer_version_2()
    async with cluster.producer(**LINGERING) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        written = await producer.send("tides", b"high")
        for _ in range(20):
            await asyncio.sleep(0)  # all tasks have processed the record and are idle
        with pytest.raises(KafkaError, match="max_request_size"):
            await producer.send("tides", bytes(2_000_000))
        with pytest.raises(KafkaError, match="max_request_size"):
            async with asyncio.timeout(TIMEOUT_S):
                await written
        await producer.flush()


async def test_close_does_not_wait_for_a_producer_id(cluster: TransactionalBrokers) -> None:
    cluster.coordinator.handlers[ApiKey.INIT_PRODUCER_ID] = lambda request: Silence
    producer = cluster.producer(max_block_ms=600_000)
    await producer.start()
    with pytest.raises(KafkaError, match="init_transactions did not complete within 20 ms"):
        await producer.init_transactions(timeout_ms=20)
    async with asyncio.timeout(TIMEOUT_S):
        await producer.close()


async def test_the_exception_reports_that_the_transaction_could_not_be_aborted(
    cluster: TransactionalBrokers,
) -> None:
    cluster.coordinator.handlers[ApiKey.END_TXN] = responses_in_order(
        end_txn_response(ErrorCode.PRODUCER_FENCED)
    )
    async with cluster.producer() as producer:
        await producer.init_transactions()
        with pytest.raises(ZeroDivisionError) as caught:
            async with producer.transaction():
                await (await producer.send("tides", b"high"))
                raise ZeroDivisionError
    [note] = caught.value.__notes__
    assert "abort_transaction" in note and "PRODUCER_FENCED" in note


async def test_close_reports_a_transaction_with_unknown_result(
    cluster: TransactionalBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.coordinator.handlers[ApiKey.END_TXN] = lambda request: Silence
    producer = cluster.producer()
    await producer.start()
    await producer.init_transactions()
    producer.begin_transaction()
    await (await producer.send("tides", b"high"))
    with pytest.raises(KafkaError, match="commit_transaction did not complete within 20 ms; it continues"):
        await producer.commit_transaction(timeout_ms=20)
    with caplog.at_level("WARNING", "tidelog.clients.transactions"):
        await producer.close(timeout_ms=20)
    assert "'gauge' was closed" in caplog.text and "transaction 60000 ms after" in caplog.text


@pytest.mark.parametrize("fails", [False, True], ids=["ends", "fails"])
async def test_a_context_whose_transaction_was_aborted_does_not_end_another_tasks_transaction(
    cluster: TransactionalBrokers, fails: bool
) -> None:
    async with cluster.producer() as producer:
        await producer.init_transactions()
        is_open, may_continue = asyncio.Event(), asyncio.Event()

        async def write() -> None:
            async with producer.transaction():
                is_open.set()
                await may_continue.wait()
                if fails:
                    raise ZeroDivisionError

        writing = asyncio.create_task(write())
        await is_open.wait()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("tides", b"high")
            may_continue.set()
            with pytest.raises(ZeroDivisionError if fails else KafkaError) as caught:
                await writing
            assert fails or "another task" in str(caught.value)
            await producer.send("tides", b"low")
    assert [request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN)] == [True]
