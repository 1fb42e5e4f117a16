"""The APIs of the transaction coordinator: each version's fields, and validation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import transaction_config
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import STEPS_PER_SLICE, counted_slices
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.waiting import eventually
from tidelog.base.clock import SystemClock
from tidelog.broker.api.handlers.add_offsets_to_txn import AddOffsetsToTxnHandler
from tidelog.broker.api.handlers.add_partitions_to_txn import AddPartitionsToTxnHandler
from tidelog.broker.api.handlers.describe_transactions import DescribeTransactionsHandler
from tidelog.broker.api.handlers.end_txn import EndTxnHandler
from tidelog.broker.api.handlers.init_producer_id import InitProducerIdHandler
from tidelog.broker.api.handlers.list_transactions import ListTransactionsHandler
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.service import TransactionPorts, TransactionService
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest
from tidelog.protocol.steps import run_steps

ID = "tides"
GROUP_PARTITION = 3
FENCED_BEFORE = ErrorCode.INVALID_PRODUCER_EPOCH


def context(version: int) -> RequestContext:
    header = RequestHeader(0, version, 0, "c")
    return RequestContext(header, "PLAINTEXT", "127.0.0.1:5", "User:ANONYMOUS", 0, ConnectedClient())


def topics(**partitions: tuple[int, ...]) -> tuple[AddPartitionsToTxnTopic, ...]:
    return tuple(
        AddPartitionsToTxnTopic(name=name.replace("offsets", GROUP_METADATA_TOPIC), partitions=indexes)
        for name, indexes in partitions.items()
    )


def codes(results: tuple[AddPartitionsToTxnTopicResult, ...]) -> dict[str, list[tuple[int, ErrorCode]]]:
    return {
        topic.name: [
            (each.partition_index, ErrorCode(each.partition_error_code))
            for each in topic.results_by_partition
        ]
        for topic in results
    }


class TransactionHandlersFixture:
    def __init__(self) -> None:
        time = VirtualTime()
        ids = iter(range(100, 200))

        async def next_id() -> int:
            return next(ids)

        self.markings: list[PreparedTransaction] = []
        self.service = TransactionService(
            transaction_config(),
            MemoryStateLog(1),
            time,
            time,
            TransactionPorts(
                leader_epoch=lambda _: 0,
                transaction_version=lambda: 2,
                new_producer_id=next_id,
                send_markers=self.markings.append,
            ),
        )
        placed = SimpleNamespace(partitions=dict.fromkeys(range(GROUP_PARTITION + 1)))
        self.topics = dict.fromkeys(("t", "u", GROUP_METADATA_TOPIC), placed)
        described_transaction: Any = SimpleNamespace(topics_by_name=self.topics)
        self.wanted_topics: list[str] = []
        self.initializing = InitProducerIdHandler(next_id, self.service, ALLOW_EVERYTHING)
        topics = TopicAccess(lambda: described_transaction, Slices(SystemClock()), ALLOW_EVERYTHING)
        self.adding = AddPartitionsToTxnHandler(self.service, topics)
        self.adding_offsets = AddOffsetsToTxnHandler(
            self.service,
            lambda _: GROUP_PARTITION,
            lambda: described_transaction,
            SimpleNamespace(ensure=self.wanted_topics.append),
        )
        self.ending = EndTxnHandler(self.service)

    async def init(self, version: int = 5, **fields: Any) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            **{"transactional_id": ID, "transaction_timeout_ms": 60_000, **fields}
        )
        return await self.initializing.handle(context(version), request)

    async def add(self, version: int, epoch: int = 0, **partitions: tuple[int, ...]) -> dict[str, Any]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=100,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics(**partitions),
        )
        response = await self.adding.handle(context(version), request)
        return codes(response.results_by_topic_v3_and_below)

    async def end(self, version: int, epoch: int = 0, *, committed: bool = True) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=ID, producer_id=100, producer_epoch=epoch, committed=committed
        )
        return await self.ending.handle(context(version), request)


@pytest.fixture
async def fixture() -> AsyncIterator[TransactionHandlersFixture]:
    fixture = TransactionHandlersFixture()
    fixture.service.start()
    fixture.service.on_leadership(0)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await eventually(lambda: fixture.service.describe(ID).error_code != loading)
    yield fixture
    await fixture.service.stop()


async def test_every_init_without_transactional_id_returns_a_new_producer_id(
    fixture: TransactionHandlersFixture,
) -> None:
    responses = [await fixture.init(transactional_id=None) for _ in range(2)]
    assert [(response.producer_id, response.producer_epoch) for response in responses] == [(100, 0), (101, 0)]


async def test_an_invalid_init_is_refused(fixture: TransactionHandlersFixture) -> None:
    assert (await fixture.init(transactional_id="")).error_code == ErrorCode.INVALID_REQUEST
    assert (await fixture.init(producer_id=5)).error_code == ErrorCode.INVALID_REQUEST
    assert (await fixture.init(producer_epoch=5)).error_code == ErrorCode.INVALID_REQUEST
    refused = await fixture.init(transaction_timeout_ms=900_001)
    assert refused.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)


@pytest.mark.parametrize(("version", "code"), [(3, FENCED_BEFORE), (4, ErrorCode.PRODUCER_FENCED)])
async def test_init_returns_the_fencing_code_of_its_version(
    fixture: TransactionHandlersFixture, version: int, code: ErrorCode
) -> None:
    await fixture.init()
    assert (await fixture.init(version, producer_id=7, producer_epoch=0)).error_code == code


@pytest.mark.parametrize(("version", "code"), [(1, FENCED_BEFORE), (2, ErrorCode.PRODUCER_FENCED)])
async def test_other_requests_return_the_fencing_code_of_their_version(
    fixture: TransactionHandlersFixture, version: int, code: ErrorCode
) -> None:
    await fixture.init()
    await fixture.init()
    assert await fixture.add(version, t=(0,)) == {"t": [(0, code)]}
    request = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=100, producer_epoch=0, group_id="g")
    assert (await fixture.adding_offsets.handle(context(version), request)).error_code == code
    assert (await fixture.end(version)).error_code == code


async def test_an_init_during_a_transaction_aborts_it_and_is_retried(
    fixture: TransactionHandlersFixture,
) -> None:
    await fixture.init()
    await fixture.add(3, t=(0,))
    assert (await fixture.init()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    [marking] = fixture.markings
    fixture.service.on_markers_written(marking, marking.partitions)
    response = await fixture.init()
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 100, 3)


async def test_an_unknown_partition_prevents_the_addition_of_all(fixture: TransactionHandlersFixture) -> None:
    await fixture.init()
    assert await fixture.add(3, t=(0, 9), nowhere=(0,)) == {
        "t": [(0, ErrorCode.OPERATION_NOT_ATTEMPTED), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        "nowhere": [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    }
    assert fixture.service.describe(ID).transaction_state == "Empty"


async def test_the_results_for_very_many_topics_are_built_in_slices(
    fixture: TransactionHandlersFixture,
) -> None:
    many, slices = 1_000, counted_slices()
    image: Any = SimpleNamespace(topics_by_name={})
    handler = AddPartitionsToTxnHandler(fixture.service, TopicAccess(lambda: image, slices, ALLOW_EVERYTHING))
    names = [f"unknown-{number}" for number in range(many)]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_topics=tuple(AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in names),
    )
    response = await handler.handle(context(3), request)
    unknown = [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert codes(response.results_by_topic_v3_and_below) == dict.fromkeys(names, unknown)
    # A step for the check of each partition, for its result, and for the result of its topic.
    assert slices.slice_count >= 3 * many // STEPS_PER_SLICE


async def test_a_client_cannot_add_an_internal_topic(fixture: TransactionHandlersFixture) -> None:
    await fixture.init()
    assert await fixture.add(3, offsets=(0,)) == {
        GROUP_METADATA_TOPIC: [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    }


async def test_a_broker_adds_and_verifies_several_transactions_in_one_request(
    fixture: TransactionHandlersFixture,
) -> None:
    await fixture.init()

    def requested_states(transactional_id: str, verify_only: bool, **partitions: tuple[int, ...]) -> Any:
        return AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=100,
            producer_epoch=0,
            verify_only=verify_only,
            topics=topics(**partitions),
        )

    async def describe(*transactions: Any) -> list[tuple[str, dict[str, Any]]]:
        request = AddPartitionsToTxnRequest(transactions=transactions)
        response = await fixture.adding.handle(context(5), request)
        return [
            (each.transactional_id, codes(each.topic_results)) for each in response.results_by_transaction
        ]

    assert await describe(
        requested_states(ID, False, t=(0,), offsets=(1,)), requested_states("other", False, t=(0,))
    ) == [
        (ID, {GROUP_METADATA_TOPIC: [(1, ErrorCode.NONE)], "t": [(0, ErrorCode.NONE)]}),
        ("other", {"t": [(0, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]}),
    ]
    assert await describe(requested_states(ID, True, t=(0, 1)), requested_states("", True, t=(0,))) == [
        (ID, {"t": [(0, ErrorCode.NONE), (1, ErrorCode.TRANSACTION_ABORTABLE)]}),
        ("", {"t": [(0, ErrorCode.INVALID_REQUEST)]}),
    ]


async def test_add_offsets_adds_the_partition_of_the_group(fixture: TransactionHandlersFixture) -> None:
    await fixture.init()
    request = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=100, producer_epoch=0, group_id="g")
    assert (await fixture.adding_offsets.handle(context(4), request)).error_code == 0
    requested_states = DescribeTransactionsRequest(transactional_ids=(ID, "other", "", ID))
    described = run_steps(
        DescribeTransactionsHandler(fixture.service, ALLOW_EVERYTHING).handle(context(0), requested_states)
    )
    [described_transaction, other, unnamed] = described.transaction_states
    assert [(topic.topic, topic.partitions) for topic in described_transaction.topics] == [
        (GROUP_METADATA_TOPIC, (GROUP_PARTITION,))
    ]
    assert other.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert unnamed.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "producer"), [(4, (-1, -1)), (5, (100, 1))])
async def test_from_version_5_the_end_returns_the_next_epoch(
    fixture: TransactionHandlersFixture, version: int, producer: tuple[int, int]
) -> None:
    await fixture.init()
    await fixture.add(3, t=(0,))
    response = await fixture.end(version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, *producer)


async def test_unknown_states_in_the_filter_are_returned(fixture: TransactionHandlersFixture) -> None:
    await fixture.init()
    handler = ListTransactionsHandler(fixture.service, ALLOW_EVERYTHING)
    for names, listed in ((("Empty", "Odd"), 1), (("Odd",), 0), ((), 1), (("Ongoing",), 0)):
        response = run_steps(handler.handle(context(2), ListTransactionsRequest(state_filters=names)))
        assert len(response.transaction_states) == listed
        assert response.unknown_state_filters == (("Odd",) if "Odd" in names else ())
    with pytest.raises(KafkaError) as error:
        run_steps(handler.handle(context(2), ListTransactionsRequest(transactional_id_pattern="(")))
    assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_add_offsets_waits_until_the_offsets_partition_is_known(
    fixture: TransactionHandlersFixture,
) -> None:
    # A partition that is not in the metadata counts as deleted and gets no marker: offsets that
    # its leader has accepted meanwhile would be pending forever.
    await fixture.init()
    partition_count = fixture.topics.pop(GROUP_METADATA_TOPIC)
    request = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=100, producer_epoch=0, group_id="g")
    refused = await fixture.adding_offsets.handle(context(3), request)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fixture.wanted_topics == [GROUP_METADATA_TOPIC]
    assert fixture.service.describe(ID).topics == ()
    fixture.topics[GROUP_METADATA_TOPIC] = partition_count
    assert (await fixture.adding_offsets.handle(context(3), request)).error_code == 0
