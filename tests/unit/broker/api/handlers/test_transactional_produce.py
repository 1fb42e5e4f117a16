"""Produce in transactions: verification, waiting, and errors (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast
from uuid import UUID

import pytest

from tests.support.logs.partition_logs import batch
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import NODE, FakeRequest
from tests.support.transactions.transactional_node import (
    ADDS_PARTITIONS_VERSION,
    PRODUCER,
    T0,
    TRANSACTIONAL_ID,
    TransactionalNode,
    run_until_response,
)
from tidelog.broker.coordinators.verification.verifier import VerificationSettings
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord


def outcome(request: FakeRequest) -> ErrorCode:
    """Return the error code of the only partition of a Produce."""
    (partition,) = cast(ProduceResponse, request.response).responses[0].partition_responses
    return ErrorCode(partition.error_code)


@pytest.fixture
async def node() -> AsyncIterator[TransactionalNode]:
    node = await TransactionalNode().start()
    yield node
    await node.stop()


async def test_only_the_first_batch_of_a_transaction_in_a_partition_is_verified(
    node: TransactionalNode,
) -> None:
    assert [one.error_code for one in await node.produce(0, 1)] == [0, 0]
    assert await node.produce_one(sequence=1, value="b") is ErrorCode.NONE
    ((broker, request),) = node.coordinator.requests
    (transaction,) = request.transactions
    assert (broker, transaction.transactional_id, transaction.producer_id) == (2, TRANSACTIONAL_ID, PRODUCER)
    assert transaction.verify_only
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("t", (0, 1))]
    assert node.values() == ["a", "b"]
    assert node.last_stable_offset() == 0


async def test_from_version_12_on_the_partition_is_added_to_the_transaction(node: TransactionalNode) -> None:
    assert await node.produce_one(version=ADDS_PARTITIONS_VERSION) is ErrorCode.NONE
    assert [transaction.verify_only for transaction in node.coordinator.requested_transactions] == [False]


async def test_the_next_transaction_is_verified_again(node: TransactionalNode) -> None:
    await node.produce_one()
    assert await node.end(T0) == {T0: ErrorCode.NONE}
    assert node.last_stable_offset() == 2
    assert await node.produce_one(sequence=1) is ErrorCode.NONE
    assert len(node.coordinator.requested_transactions) == 2


async def test_an_unknown_transaction_is_refused_for_its_partition(
    node: TransactionalNode,
) -> None:
    node.coordinator.refusals = {T0: ErrorCode.INVALID_TXN_STATE}
    refused, taken = await node.produce(0, 1)
    assert (refused.error_code, taken.error_code) == (ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE)
    assert node.values() == []


@pytest.mark.parametrize(
    ("reported", "version", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, 11, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 11, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
async def test_verification_errors_are_mapped_to_codes_of_the_producer(
    node: TransactionalNode, reported: ErrorCode, version: int, expected: ErrorCode
) -> None:
    node.coordinator.refusals = {T0: reported}
    assert await node.produce_one(version=version) is expected


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS),
        # The broker cannot verify, so no transaction is verified.
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE),
    ],
)
async def test_an_unavailable_coordinator_is_a_retriable_error(
    node: TransactionalNode, failure: ErrorCode, expected: ErrorCode
) -> None:
    node.coordinator.failure = failure
    assert await node.produce_one() is expected


async def test_a_partition_that_the_coordinator_could_not_add_takes_no_records(
    node: TransactionalNode,
) -> None:
    # Without verification, the records would belong to no transaction, and no marker would ever end them.
    node.coordinator.failure = ErrorCode.UNSUPPORTED_VERSION
    assert await node.produce_one(version=ADDS_PARTITIONS_VERSION) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.values() == []


async def test_without_a_coordinator_no_request_is_sent(node: TransactionalNode) -> None:
    node.replicas.register(2, fenced=True)
    assert await node.produce_one() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.coordinator.requested_transactions == []


async def test_an_error_between_brokers_is_not_returned_to_the_producer(node: TransactionalNode) -> None:
    node.coordinator.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await node.produce_one() is ErrorCode.INVALID_TXN_STATE


async def test_verification_is_retried_while_the_previous_transaction_ends(
    node: TransactionalNode,
) -> None:
    node.coordinator.refusals = {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    request = node.send(version=ADDS_PARTITIONS_VERSION, epoch=1)
    await loop_iterations()
    assert request.is_open
    await node.end(T0, epoch=1, transaction_version=2)
    node.coordinator.refusals = {}
    await run_until_response(request)
    (partition,) = cast(ProduceResponse, request.response).responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, 1)
    assert len(node.coordinator.requested_transactions) > 1


async def test_a_previous_transaction_that_does_not_end_in_time_is_reported(
    node: TransactionalNode,
) -> None:
    node.use(VerificationSettings(is_enabled=True, retry_backoff_ms=0, retry_backoff_max_ms=0))
    node.coordinator.refusals = {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert await node.produce_one(version=ADDS_PARTITIONS_VERSION) is ErrorCode.CONCURRENT_TRANSACTIONS


async def test_verification_can_be_disabled_for_clients_that_add_partitions_themselves(
    node: TransactionalNode,
) -> None:
    node.use(VerificationSettings(is_enabled=False, retry_backoff_ms=0, retry_backoff_max_ms=0))
    assert await node.produce_one() is ErrorCode.NONE
    assert node.coordinator.requested_transactions == []
    assert await node.produce_one(producer_id=8, version=ADDS_PARTITIONS_VERSION) is ErrorCode.NONE
    assert len(node.coordinator.requested_transactions) == 1


async def test_records_of_a_transaction_need_a_transactional_id(node: TransactionalNode) -> None:
    assert await node.produce_one(transactional_id=None) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_later_requests_of_a_connection_wait_for_the_verification(node: TransactionalNode) -> None:
    node.coordinator.gate = asyncio.Event()
    request = node.send()
    await loop_iterations()
    assert request.is_open and len(request.frame), "no response, and not parked: the frame is still needed"
    node.coordinator.gate.set()
    await run_until_response(request)
    assert node.values() == ["a"]


async def test_records_of_a_client_that_disconnected_during_verification_are_not_appended(
    node: TransactionalNode,
) -> None:
    # Its frame is another request's by then (CVE-2026-35554).
    node.coordinator.gate = asyncio.Event()
    request = node.send()
    await loop_iterations()
    request.abandon()
    node.coordinator.gate.set()
    await loop_iterations()
    assert node.values() == []


async def test_a_partition_that_changes_its_leader_during_verification_is_refused(
    node: TransactionalNode,
) -> None:
    node.coordinator.gate = asyncio.Event()
    request = node.send()
    await loop_iterations()
    topic_id = node.replicas.image.topics_by_name["t"].id
    node.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    node.coordinator.gate.set()
    await run_until_response(request)
    (partition,) = cast(ProduceResponse, request.response).responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_topic_created_during_verification_is_not_verified(
    node: TransactionalNode,
) -> None:
    # INVALID_TXN_STATE would be fatal for the producer, which received the topic before this broker did.
    t_id, new_id = node.replicas.image.topics_by_name["t"].id, UUID(int=1_003)
    records = batch(["a"], producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True)
    data = (PartitionProduceData(index=0, records=bytes(records)),)
    message = ProduceRequest(
        transactional_id=TRANSACTIONAL_ID,
        acks=-1,
        topic_data=tuple(TopicProduceData(topic_id=each, partition_data=data) for each in (t_id, new_id)),
    )
    node.coordinator.gate = asyncio.Event()
    request = FakeRequest(message, 13)
    node.produce_handler.handle(request)
    await loop_iterations()
    assert node.replicas.create("new") == new_id
    node.coordinator.gate.set()
    await run_until_response(request)
    topics = cast(ProduceResponse, request.response).responses
    errors = {topic.topic_id: topic.partition_responses[0].error_code for topic in topics}
    assert errors == {t_id: ErrorCode.NONE, new_id: ErrorCode.UNKNOWN_TOPIC_ID}


async def test_kafka_14402_a_late_batch_does_not_start_a_hanging_transaction(
    node: TransactionalNode,
) -> None:
    node.coordinator.gate = asyncio.Event()
    late = node.send()
    await loop_iterations()
    # The coordinator aborts by its timeout after it has confirmed the verification.
    assert await node.end(T0, commit=False, epoch=0) == {T0: ErrorCode.NONE}
    node.coordinator.gate.set()
    await run_until_response(late)
    assert outcome(late) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.last_stable_offset() == 1, "read_committed consumers continue"
    # A producer that is still active sends the batch again, and the coordinator verifies it.
    node.coordinator.refusals = {T0: ErrorCode.TRANSACTION_ABORTABLE}
    assert await node.produce_one() is ErrorCode.TRANSACTION_ABORTABLE


async def test_the_marker_of_the_previous_transaction_during_verification_refuses_no_batch(
    node: TransactionalNode,
) -> None:
    """The coordinator gets the markers' responses before it reads the request, so it adds the partition."""
    assert await node.produce_one(version=ADDS_PARTITIONS_VERSION) is ErrorCode.NONE
    node.coordinator.gate = asyncio.Event()
    request = node.send(version=ADDS_PARTITIONS_VERSION, epoch=1)
    await loop_iterations()
    assert await node.end(T0, epoch=1, transaction_version=2) == {T0: ErrorCode.NONE}
    node.coordinator.gate.set()
    await run_until_response(request)
    assert outcome(request) is ErrorCode.NONE
    assert len(node.coordinator.requested_transactions) == 2
    assert (node.values(), node.last_stable_offset()) == (["a", "a"], 2)


async def test_a_marker_without_transaction_version_makes_the_producer_retry(
    node: TransactionalNode,
) -> None:
    node.coordinator.gate = asyncio.Event()
    request = node.send(version=ADDS_PARTITIONS_VERSION, epoch=1)
    await loop_iterations()
    await node.end(T0, epoch=1, version=1)
    node.coordinator.gate.set()
    await run_until_response(request)
    assert outcome(request) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await node.produce_one(version=ADDS_PARTITIONS_VERSION, epoch=1) is ErrorCode.NONE


async def test_a_verification_from_before_a_leader_change_is_not_used(
    node: TransactionalNode,
) -> None:
    # The transaction.version of the markers that the other leader wrote is unknown.
    node.coordinator.gate = asyncio.Event()
    request = node.send(version=ADDS_PARTITIONS_VERSION, epoch=1)
    await loop_iterations()
    topic_id = node.replicas.image.topics_by_name["t"].id
    for leader in (2, NODE):
        node.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader))
    node.coordinator.gate.set()
    await run_until_response(request)
    assert outcome(request) is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_kafka_14402_a_batch_after_the_abort_of_its_transaction_is_refused(
    node: TransactionalNode,
) -> None:
    await node.produce_one()
    await node.end(T0, commit=False, epoch=1)
    assert await node.produce_one(sequence=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(node.coordinator.requested_transactions) == 1, "the log knows it"
    assert node.last_stable_offset() == 2


async def test_a_slow_verification_does_not_delay_other_producers(node: TransactionalNode) -> None:
    node.coordinator.gate = asyncio.Event()
    slow = node.send()
    await loop_iterations()
    gate, node.coordinator.gate = node.coordinator.gate, None
    assert await node.produce_one(producer_id=20, transactional_id="other") is ErrorCode.NONE
    assert slow.is_open
    gate.set()
    await run_until_response(slow)
    assert outcome(slow) is ErrorCode.NONE


async def test_a_batch_repeated_during_its_verification_is_appended_once(
    node: TransactionalNode,
) -> None:
    node.coordinator.gate = asyncio.Event()
    requests = [node.send(), node.send()]
    node.coordinator.gate.set()
    for request in requests:
        await run_until_response(request)
    assert [outcome(request) for request in requests] == [ErrorCode.NONE, ErrorCode.NONE]
    assert node.values() == ["a"]


async def test_of_two_producer_epochs_the_coordinator_accepts_the_newer(
    node: TransactionalNode,
) -> None:
    # A request with a higher epoch that the coordinator does not know fences no producer.
    node.coordinator.gate = asyncio.Event()
    requests = [node.send(epoch=1), node.send(epoch=0)]
    node.coordinator.gate.set()
    for request in requests:
        await run_until_response(request)
    assert [outcome(request) for request in requests] == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH]
    assert [transaction.producer_epoch for transaction in node.coordinator.requested_transactions] == [1, 0]


async def test_records_of_two_producers_in_one_request_are_refused(node: TransactionalNode) -> None:
    data = tuple(
        PartitionProduceData(
            index=index,
            records=bytes(
                batch(["a"], producer_id=index, producer_epoch=0, base_sequence=0, is_transactional=True)
            ),
        )
        for index in range(2)
    )
    message = ProduceRequest(
        transactional_id="tx", acks=-1, topic_data=(TopicProduceData(name="t", partition_data=data),)
    )
    with pytest.raises(KafkaError, check=lambda e: e.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        node.produce_handler.handle(FakeRequest(message, 11))


async def test_unknown_partitions_do_not_prevent_verification_of_others(node: TransactionalNode) -> None:
    unknown, taken = await node.produce(9, 1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert taken.error_code == ErrorCode.NONE
    assert node.values(TopicPartition("t", 1)) == ["a"]
