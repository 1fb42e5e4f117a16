"""Transactions of the producer over sockets, against brokers with scripted responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.network.scripted_broker import (
    Close,
    ReceivedRequest,
    ScriptedResponse,
    Silence,
    responses_in_order,
)
from tests.support.network.scripted_coordinators import (
    GROUP,
    P0,
    TransactionalBrokers,
    produce_response,
    transactional_brokers,
)
from tests.support.transactions.producers import end_txn_response, txn_offset_commit_response
from tests.support.waiting import eventually
from tidelog.clients.config.options import ConfigError
from tidelog.clients.groups.coordinator_lookup import TRANSACTION_KEY_TYPE
from tidelog.clients.producer.producer import Producer
from tidelog.clients.transactions.transaction_errors import AbortableTransactionError, FatalTransactionError
from tidelog.protocol.batch import read_header
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import ApiKey


@pytest.fixture
async def cluster() -> AsyncIterator[TransactionalBrokers]:
    async with transactional_brokers() as both:
        yield both


async def test_before_version_2_partitions_and_groups_are_added_to_the_transaction(
    cluster: TransactionalBrokers,
) -> None:
    async with cluster.producer() as producer:
        await producer.init_transactions()
        async with producer.transaction():
            written = await producer.send("tides", b"high")
            await producer.send_offsets_to_transaction({P0: 5}, GROUP)
        assert written.done()
    [produce] = [request for request in cluster.leader.received_requests if request.api_key == ApiKey.PRODUCE]
    assert (produce.version, produce.message.transactional_id) == (11, "gauge")
    header = read_header(produce.message.topic_data[0].partition_data[0].records)
    assert header.is_transactional and (header.producer_id, header.producer_epoch) == (7, 0)
    versions = {api: cluster.versions_and_epochs(api)[0][0] for api in (24, 25, 26, 28)}
    assert versions == {24: 3, 25: 4, 26: 4, 28: 4}
    lookups = {
        (request.message.coordinator_keys, request.message.key_type)
        for broker in (cluster.leader, cluster.coordinator)
        for request in broker.received_requests
        if request.api_key == ApiKey.FIND_COORDINATOR
    }
    assert lookups == {(("gauge",), TRANSACTION_KEY_TYPE), (("harbour",), 0)}


async def test_with_version_2_the_coordinator_gets_only_the_end(cluster: TransactionalBrokers) -> None:
    cluster.offer_version_2()
    async with cluster.producer() as producer:
        await producer.init_transactions()
        for _ in range(2):
            async with producer.transaction():
                await producer.send("tides", b"high")
                await producer.send_offsets_to_transaction({P0: 5}, GROUP)
    produce_requests = [
        request for request in cluster.leader.received_requests if request.api_key == ApiKey.PRODUCE
    ]
    assert [request.version for request in produce_requests] == [12, 12], (
        "13 needs topic ids, which this broker lacks"
    )
    assert (
        cluster.versions_and_epochs(ApiKey.ADD_PARTITIONS_TO_TXN)
        == cluster.versions_and_epochs(ApiKey.ADD_OFFSETS_TO_TXN)
        == []
    )
    assert cluster.versions_and_epochs(ApiKey.TXN_OFFSET_COMMIT) == [(5, 0), (5, 1)]
    assert cluster.versions_and_epochs(ApiKey.END_TXN) == [(5, 0), (5, 1)]


async def test_a_commit_does_not_linger(cluster: TransactionalBrokers) -> None:
    async with cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        written = await producer.send("tides", b"high")
        await producer.commit_transaction()
        assert written.done()


async def test_a_commit_without_response_is_repeated_with_the_same_epoch(
    cluster: TransactionalBrokers,
) -> None:
    cluster.offer_version_2()
    cluster.coordinator.handlers[ApiKey.END_TXN] = responses_in_order(
        Close, end_txn_response(ErrorCode.NONE, 7, 1)
    )
    async with cluster.producer() as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("tides", b"high")
    assert cluster.versions_and_epochs(ApiKey.END_TXN) == [(5, 0), (5, 0)]


async def test_before_version_2_a_lost_response_raises_the_epoch(cluster: TransactionalBrokers) -> None:
    # KAFKA-17754
    cluster.coordinator.handlers[ApiKey.END_TXN] = responses_in_order(Close, end_txn_response())
    async with cluster.producer() as producer:
        await producer.init_transactions()
        for _ in range(2):
            async with producer.transaction():
                await producer.send("tides", b"high")
    assert cluster.versions_and_epochs(ApiKey.END_TXN) == [(4, 0), (4, 0), (4, 1)]
    assert cluster.versions_and_epochs(ApiKey.INIT_PRODUCER_ID) == [(5, -1), (5, 0)]


async def test_a_moved_coordinator_is_looked_up_again(cluster: TransactionalBrokers) -> None:
    cluster.coordinator.handlers[ApiKey.END_TXN] = responses_in_order(
        end_txn_response(ErrorCode.NOT_COORDINATOR), end_txn_response()
    )
    async with cluster.producer() as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("tides", b"high")
    brokers = (cluster.leader, cluster.coordinator)
    assert sum(len(broker.requests(ApiKey.FIND_COORDINATOR)) for broker in brokers) == 2


async def test_an_exception_aborts_and_fails_unsent_records(cluster: TransactionalBrokers) -> None:
    async with cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        await producer.init_transactions()
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                written = await producer.send("tides", b"high")
                raise ZeroDivisionError
        with pytest.raises(KafkaError, match="aborted") as caught:
            await written
        assert caught.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED
        async with producer.transaction():
            await producer.send("tides", b"low")
    assert len(cluster.leader.requests(ApiKey.PRODUCE)) == 1


async def test_a_cancelled_task_aborts_its_transaction(cluster: TransactionalBrokers) -> None:
    async with cluster.producer() as producer:
        await producer.init_transactions()
        is_open = asyncio.Event()

        async def write() -> None:
            async with producer.transaction():
                await (await producer.send("tides", b"high"))
                is_open.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(write())
        await is_open.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN)] == [False]
        producer.begin_transaction()


async def test_a_cancelled_commit_continues_and_a_second_call_returns_its_result(
    cluster: TransactionalBrokers,
) -> None:
    is_asked = asyncio.Event()
    responses: list[ScriptedResponse] = [Silence, end_txn_response()]

    def end(request: ReceivedRequest) -> ScriptedResponse:
        is_asked.set()
        return responses.pop(0)

    cluster.coordinator.handlers[ApiKey.END_TXN] = end
    async with cluster.producer(request_timeout_ms=300, delivery_timeout_ms=400) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("tides", b"high")
        task = asyncio.create_task(producer.commit_transaction())
        await is_asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for refused in (producer.abort_transaction(), producer.send("tides", b"low")):
            with pytest.raises(KafkaError, match="the result of commit_transaction is pending"):
                await refused
        await producer.commit_transaction()
        producer.begin_transaction()
    assert all(request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN))


async def test_a_timed_out_commit_can_be_awaited_again(cluster: TransactionalBrokers) -> None:
    cluster.coordinator.handlers[ApiKey.END_TXN] = responses_in_order(
        *[end_txn_response(ErrorCode.CONCURRENT_TRANSACTIONS)] * 20, end_txn_response()
    )
    async with cluster.producer() as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("tides", b"high")
        with pytest.raises(KafkaError, match="commit_transaction did not complete within 20 ms") as caught:
            await producer.commit_transaction(timeout_ms=20)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await producer.commit_transaction()
        producer.begin_transaction()


async def test_a_refused_batch_fails_the_commit_and_the_transaction_is_aborted(
    cluster: TransactionalBrokers,
) -> None:
    cluster.leader.handlers[ApiKey.PRODUCE] = responses_in_order(
        produce_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED), produce_response()
    )
    async with cluster.producer() as producer:
        await producer.init_transactions()
        with pytest.raises(AbortableTransactionError, match="tides-0") as caught:
            async with producer.transaction():
                await producer.send("tides", b"high")
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        async with producer.transaction():
            await producer.send("tides", b"low")
    committed = [request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN)]
    assert committed == [False, True]
    assert cluster.versions_and_epochs(ApiKey.INIT_PRODUCER_ID) == [(5, -1), (5, 0)]


async def test_an_oversized_record_fails_the_commit(cluster: TransactionalBrokers) -> None:
    async with cluster.producer() as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(KafkaError, match="max_request_size"):
            await producer.send("tides", bytes(2_000_000))
        with pytest.raises(AbortableTransactionError, match="max_request_size"):
            await producer.commit_transaction()
        await producer.abort_transaction()


async def test_a_fenced_producer_can_only_be_closed(cluster: TransactionalBrokers) -> None:
    cluster.coordinator.handlers[ApiKey.END_TXN] = responses_in_order(
        end_txn_response(ErrorCode.INVALID_PRODUCER_EPOCH)
    )
    async with cluster.producer() as producer:
        await producer.init_transactions()
        with pytest.raises(FatalTransactionError) as caught:
            async with producer.transaction():
                await producer.send("tides", b"high")
        assert caught.value.code is ErrorCode.PRODUCER_FENCED
        for refused in (producer.send("tides", b"low"), producer.abort_transaction()):
            with pytest.raises(FatalTransactionError):
                await refused
        with pytest.raises(FatalTransactionError):
            producer.begin_transaction()


async def test_a_transaction_with_offsets_of_a_stale_generation_can_only_be_aborted(
    cluster: TransactionalBrokers,
) -> None:
    cluster.coordinator.handlers[ApiKey.TXN_OFFSET_COMMIT] = responses_in_order(
        txn_offset_commit_response({P0: ErrorCode.ILLEGAL_GENERATION})
    )
    async with cluster.producer() as producer:
        await producer.init_transactions()
        with pytest.raises(AbortableTransactionError) as caught:
            async with producer.transaction():
                await producer.send_offsets_to_transaction({P0: 5}, GROUP)
        assert caught.value.code is ErrorCode.ILLEGAL_GENERATION
        assert producer._transactions is not None and producer._transactions.lifecycle.state.name == "READY"


async def test_close_aborts_an_open_transaction(cluster: TransactionalBrokers) -> None:
    async with cluster.producer() as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await (await producer.send("tides", b"high"))
    assert [request.committed for request in cluster.coordinator.requests(ApiKey.END_TXN)] == [False]


async def test_close_ends_waiting_calls(cluster: TransactionalBrokers) -> None:
    cluster.coordinator.handlers[ApiKey.INIT_PRODUCER_ID] = lambda request: Silence
    producer = cluster.producer()
    await producer.start()
    waiting = asyncio.create_task(producer.init_transactions())
    await eventually(lambda: cluster.versions_and_epochs(ApiKey.INIT_PRODUCER_ID))
    await producer.close(timeout_ms=0)
    with pytest.raises(KafkaError, match="closed"):
        await waiting


async def test_records_outside_of_a_transaction_are_refused(cluster: TransactionalBrokers) -> None:
    async with cluster.producer() as producer:
        with pytest.raises(KafkaError, match="this one is in UNINITIALIZED"):
            await producer.send("tides", b"high")
        await producer.init_transactions()
        with pytest.raises(KafkaError, match="this one is in READY"):
            producer.send_nowait("tides", b"high")
        assert await producer.partitions_for("tides") == (0,)
    assert cluster.leader.requests(ApiKey.PRODUCE) == []


async def test_transactions_need_a_transactional_id_and_idempotence(cluster: TransactionalBrokers) -> None:
    async with Producer(cluster.leader.address) as producer:
        with pytest.raises(KafkaError, match="transactional_id"):
            await producer.init_transactions()
    for options in ({"enable_idempotence": False}, {"transactional_id": ""}, {"transaction_timeout_ms": 0}):
        with pytest.raises(ConfigError):
            Producer(**({"transactional_id": "gauge"} | options))
