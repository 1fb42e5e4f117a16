"""Transactions of a producer that several tasks use, or that are given up half-way."""

from __future__ import annotations

import asyncio

import pytest

from clients.transaction_errors import AbortableTransactionError
from protocol.errors import ErrorCode, KafkaError
from protocol.registry import ApiKey
from tests.clients.test_producer_transactions import Coordinated, cluster, in_turn, produced

__all__ = ["cluster"]


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
