"""Admin calls about transactions, against brokers with scripted responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.network.scripted_broker import ReceivedRequest, ScriptedBroker, scripted_brokers
from tidelog.clients.admin.admin import Admin, TransactionDescription, TransactionListing
from tidelog.clients.groups.coordinator_lookup import TRANSACTION_KEY_TYPE
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsResponse
from tidelog.protocol.messages.list_transactions import TransactionState as Listed
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tidelog.protocol.registry import ApiKey

P0 = TopicPartition("tides", 0)


@pytest.fixture
async def brokers() -> AsyncIterator[list[ScriptedBroker]]:
    """Yield two brokers; the second one coordinates every transactional id."""
    async with scripted_brokers(2) as pair:
        for broker in pair:
            broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request: coordinator_response(pair[1], request)
        yield pair


def coordinator_response(broker: ScriptedBroker, request: ReceivedRequest) -> FindCoordinatorResponse:
    assert request.message.key_type == TRANSACTION_KEY_TYPE
    [key] = request.message.coordinator_keys
    return FindCoordinatorResponse(
        coordinators=(Coordinator(key=key, node_id=broker.node_id, host="127.0.0.1", port=broker.port),)
    )


def transactions_response(code: ErrorCode = ErrorCode.NONE, **fields: Any) -> DescribeTransactionsResponse:
    state = TransactionState(
        error_code=code,
        transactional_id="gauge",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1_000,
        producer_id=7,
        producer_epoch=3,
        topics=(TopicData(topic="tides", partitions=(0, 2)),),
    )
    return DescribeTransactionsResponse(transaction_states=(replace(state, **fields),))


async def test_a_transaction_is_described_by_its_coordinator(brokers: list[ScriptedBroker]) -> None:
    responses = [
        transactions_response(ErrorCode.NOT_COORDINATOR),
        transactions_response(),
        transactions_response(transaction_start_time_ms=-1),
    ]
    brokers[1].handlers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda request: responses.pop(0)
    async with Admin(brokers[0].address, retry_backoff_ms=1) as admin:
        ongoing = (await admin.describe_transactions(["gauge"]))["gauge"]
        idle = (await admin.describe_transactions(["gauge"]))["gauge"]
    assert ongoing == TransactionDescription(
        transactional_id="gauge",
        coordinator_id=2,
        state="Ongoing",
        producer_id=7,
        producer_epoch=3,
        timeout_ms=60_000,
        start_time_ms=1_000,
        partitions=(P0, TopicPartition("tides", 2)),
    )
    assert isinstance(idle, TransactionDescription) and idle.start_time_ms is None


async def test_an_unknown_transactional_id_has_its_own_error(brokers: list[ScriptedBroker]) -> None:
    brokers[1].handlers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda request: transactions_response(
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )
    async with Admin(brokers[0].address) as admin:
        error = (await admin.describe_transactions(["gauge"]))["gauge"]
    assert isinstance(error, KafkaError) and error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_transactions_of_all_brokers_are_listed_with_filters(brokers: list[ScriptedBroker]) -> None:
    def list_response(name: str) -> ListTransactionsResponse:
        listed = Listed(transactional_id=name, producer_id=7, transaction_state="Ongoing")
        return ListTransactionsResponse(transaction_states=(listed,))

    brokers[0].handlers[ApiKey.LIST_TRANSACTIONS] = lambda request: list_response("a")
    brokers[1].handlers[ApiKey.LIST_TRANSACTIONS] = lambda request: list_response("b")
    async with Admin(brokers[0].address) as admin:
        listings = await admin.list_transactions(
            states=["Ongoing"], producer_ids=[7], duration_ms=5, pattern="[ab]"
        )
    assert listings == {
        name: TransactionListing(
            transactional_id=name, producer_id=7, state="Ongoing", coordinator_id=coordinator
        )
        for name, coordinator in (("a", 1), ("b", 2))
    }
    [requested] = brokers[1].requests(ApiKey.LIST_TRANSACTIONS)
    assert (requested.state_filters, requested.producer_id_filters) == (("Ongoing",), (7,))
    assert (requested.duration_filter, requested.transactional_id_pattern) == (5, "[ab]")


async def test_a_filter_that_a_broker_does_not_support_is_refused() -> None:
    async with scripted_brokers() as [broker]:
        broker.versions[ApiKey.LIST_TRANSACTIONS] = 0
        broker.handlers[ApiKey.LIST_TRANSACTIONS] = lambda request: ListTransactionsResponse()
        async with Admin(broker.address) as admin:
            assert await admin.list_transactions() == {}
            for filters in ({"duration_ms": 5}, {"pattern": "a"}):
                with pytest.raises(KafkaError) as caught:
                    await admin.list_transactions(**filters)
                assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_an_unknown_state_is_refused_by_name() -> None:
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.LIST_TRANSACTIONS] = lambda request: ListTransactionsResponse(
            unknown_state_filters=("Sleeping",)
        )
        async with Admin(broker.address) as admin:
            with pytest.raises(KafkaError, match="Sleeping"):
                await admin.list_transactions(states=["Sleeping"])


async def test_fence_producers_retries_until_the_open_transaction_is_aborted(
    brokers: list[ScriptedBroker],
) -> None:
    responses = [
        InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
        InitProducerIdResponse(producer_id=7, producer_epoch=4),
    ]
    brokers[1].handlers[ApiKey.INIT_PRODUCER_ID] = lambda request: responses.pop(0)
    async with Admin(brokers[0].address, retry_backoff_ms=1) as admin:
        assert await admin.fence_producers(["gauge"]) == {"gauge": (7, 4)}
    requested = brokers[1].requests(ApiKey.INIT_PRODUCER_ID)
    assert [(request.transactional_id, request.producer_id) for request in requested] == [
        ("gauge", -1),
        ("gauge", -1),
    ]


async def test_a_hanging_transaction_is_aborted_at_the_leader() -> None:
    def markers_response(code: ErrorCode) -> WriteTxnMarkersResponse:
        partition = WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
        topic = WritableTxnMarkerTopicResult(name="tides", partitions=(partition,))
        return WriteTxnMarkersResponse(markers=(WritableTxnMarkerResult(producer_id=7, topics=(topic,)),))

    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH]
    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.WRITE_TXN_MARKERS] = lambda request: markers_response(codes.pop(0))
        async with Admin(broker.address, retry_backoff_ms=1) as admin:
            await admin.abort_transaction(P0, 7, 3, -1)
            with pytest.raises(KafkaError) as caught:
                await admin.abort_transaction(P0, 7, 2, 0)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    [marker] = broker.requests(ApiKey.WRITE_TXN_MARKERS)[1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 0)
    assert not marker.transaction_result
