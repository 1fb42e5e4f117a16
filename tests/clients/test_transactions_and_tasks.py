"""Transactions of a producer that several tasks use, or that are given up half-way."""

from __future__ import annotations

import asyncio

import pytest

from clients.transaction_errors import AbortableTransactionError
from protocol.errors import ErrorCode, KafkaError
from protocol.registry import ApiKey
from tests.clients.test_producer_transactions import Coordinated, cluster, in_turn, produced
from tests.support.scripted_broker import Silence
from tests.support.transactional_producers import ended

__all__ = ["cluster"]
PATIENCE_S = 5


async def test_a_commit_whose_transaction_another_task_aborts_is_not_told_to_be_made(
    cluster: Coordinated,
) -> None:
    cluster.leader.handlers[ApiKey.PRODUCE] = in_turn(produced(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    async with cluster.producer() as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        written = await producer.send("tides", b"high")
        committing = asyncio.create_task(producer.commit_transaction())
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await written
        await producer.abort_transaction()
        with pytest.raises(AbortableTransactionError, match="tides-0"):
            await committing
    assert [request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN)] == [False]


async def test_a_commit_that_fails_while_the_producer_is_closed_is_not_told_to_be_made(
    cluster: Coordinated,
) -> None:
    cluster.leader.handlers[ApiKey.PRODUCE] = in_turn(produced(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    async with cluster.producer() as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        written = await producer.send("tides", b"high")
        committing = asyncio.create_task(producer.commit_transaction())
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await written
    with pytest.raises(AbortableTransactionError, match="tides-0"):
        await committing


async def test_closing_does_not_wait_for_a_producer_id(cluster: Coordinated) -> None:
    cluster.coordinator.handlers[ApiKey.INIT_PRODUCER_ID] = lambda seen: Silence
    producer = cluster.producer(max_block_ms=60_000)
    await producer.start()
    with pytest.raises(KafkaError, match="init_transactions did not end within 20 ms"):
        await producer.init_transactions(timeout_ms=20)
    async with asyncio.timeout(PATIENCE_S):
        await producer.close()


async def test_the_exception_of_a_body_says_that_its_transaction_could_not_be_aborted(
    cluster: Coordinated,
) -> None:
    cluster.coordinator.handlers[ApiKey.END_TXN] = in_turn(ended(ErrorCode.PRODUCER_FENCED))
    async with cluster.producer() as producer:
        await producer.init_transactions()
        with pytest.raises(ZeroDivisionError) as caught:
            async with producer.transaction():
                await (await producer.send("tides", b"high"))
                raise ZeroDivisionError
    [note] = caught.value.__notes__
    assert "abort_transaction" in note and "PRODUCER_FENCED" in note
