"""Requests that wait for other requests do not occupy one of the queued.max.requests slots.

These brokers have one slot. If a request that waits for a coordinator's log or for another broker kept it,
no other request would be served, and two brokers could wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.configs import transaction_config
from tests.support.groups.state_log import MemoryStateLog
from tests.support.network.loopback_server import Client, running_server
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.transactional_node import TransactionalNode
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.api.handlers.registry import _register_parts_of_transactions, _register_transactions
from tidelog.broker.api.handlers.services import Services
from tidelog.broker.coordinators.transactions.service import TransactionPorts, TransactionService
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import encode_request
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage

ID = "tides"
PRODUCER_ID = 100
NAMED: dict[str, Any] = {"transactional_id": ID, "producer_id": PRODUCER_ID, "producer_epoch": 0}


class Broker:
    """The transaction APIs of a node over sockets; its coordinator's log can delay commits."""

    def __init__(self, node: TransactionalNode) -> None:
        self.node = node
        self.log = MemoryStateLog(1)
        self.transactions = TransactionService(
            transaction_config(),
            self.log,
            node.timers,
            node.clock,
            TransactionPorts(
                leader_epoch=lambda _: 1,
                transaction_version=lambda: 2,
                new_producer_id=self._new_producer_id,
                send_markers=lambda _: None,
            ),
        )
        slices = Slices(node.clock)
        services: Any = SimpleNamespace(
            slices=slices,
            replicas=node.replicas.manager,
            group_transactions=node.group_transactions,
            groups=node.groups,
            produce_purgatory=node.produces,
            readers=node.fetches,
            flusher=None,
            clock=node.clock,
            config=SimpleNamespace(request_timeout_ms=600_000),
            image=lambda: node.replicas.image,
            transactions=self.transactions,
            topic_creation=None,
            producer_ids=SimpleNamespace(next=self._new_producer_id),
            authorizer=ALLOW_EVERYTHING,
        )
        services.topic_access = lambda: TopicAccess(services.image, slices, ALLOW_EVERYTHING)
        self.channel = RequestChannel(limit=1)
        self.dispatcher = Dispatcher(
            self.channel, RequestMetrics(), node.clock, slices, quotas=None, guard=None
        )
        _register_parts_of_transactions(self.dispatcher, cast(Services, services))
        _register_transactions(self.dispatcher, cast(Services, services))

    async def _new_producer_id(self) -> int:
        return PRODUCER_ID

    async def begin(self) -> None:
        """Start a transaction."""
        self.transactions.start()
        self.transactions.on_leadership(0)
        await eventually(
            lambda: self.transactions.describe(ID).error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        await self.transactions.init_producer(ID, 60_000, None)


@asynccontextmanager
async def run_broker() -> AsyncIterator[tuple[Broker, Client, Client]]:
    node = await TransactionalNode().start()
    broker = Broker(node)
    await broker.begin()
    async with running_server(broker.dispatcher.dispatch) as served:
        yield broker, await served.connect(), await served.connect()
    await broker.channel.close()
    await broker.transactions.stop()
    await node.stop()


async def send(client: Client, message: ApiMessage, version: int) -> None:
    await client.send(encode_request(ApiKey(message.api_key), version, 1, "c", message))


async def has_response(client: Client, message: ApiMessage, version: int) -> bool:
    await send(client, message, version)
    async with asyncio.timeout(TIMEOUT_S):
        return bool(await client.receive())


def add_partitions_request(*, verify_only: bool) -> AddPartitionsToTxnRequest:
    topic = AddPartitionsToTxnTopic(name="t", partitions=(0,))
    transaction = AddPartitionsToTxnTransaction(**NAMED, verify_only=verify_only, topics=(topic,))
    return AddPartitionsToTxnRequest(transactions=(transaction,))


async def test_two_brokers_with_mutually_waiting_offset_commits_make_progress() -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=(partition,))
    async with run_broker() as (broker, one, other):
        coordinator = broker.node.coordinator
        coordinator.gate = asyncio.Event()
        await send(one, TxnOffsetCommitRequest(**NAMED, group_id="g", topics=(topic,)), 5)
        await eventually(lambda: bool(coordinator.requests))
        # The other broker is in the same state, and sends its request to this one.
        assert await has_response(other, add_partitions_request(verify_only=True), 5)
        coordinator.gate.set()
        assert await one.receive()


@pytest.mark.parametrize(
    ("waits", "version"),
    [
        (lambda: InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 4),
        (lambda: add_partitions_request(verify_only=False), 5),
        (lambda: AddOffsetsToTxnRequest(**NAMED, group_id="g"), 3),
        (lambda: EndTxnRequest(**NAMED, committed=False), 5),
    ],
)
async def test_a_coordinator_with_a_slow_log_serves_other_requests(
    waits: Callable[[], ApiMessage], version: int
) -> None:
    async with run_broker() as (broker, one, other):
        broker.log.holds_commits = True
        await send(one, waits(), version)
        await eventually(lambda: bool(broker.log.held))
        assert await has_response(other, add_partitions_request(verify_only=True), 5)
        assert await has_response(other, DescribeTransactionsRequest(transactional_ids=(ID,)), 0)
        broker.log.commit_all()
        assert await one.receive()
