"""A transaction manager with a real accumulator, without sockets, and responses for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.transactions.accumulators import P0, P1, Outcome, cluster, core, put_or_fail
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.producer.produce_core import ProduceCore
from tidelog.clients.producer.transactional_identity import TransactionalIdentity
from tidelog.clients.transactions.transaction_lifecycle import TransactionState
from tidelog.clients.transactions.transaction_manager import Step, TransactionManager
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tidelog.protocol.messages.end_txn import EndTxnResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdResponse
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.protocol.schema import ApiMessage

TRANSACTIONAL_ID = "gauge"
TIMEOUT_MS = 30_000
AT_5 = {P0: OffsetAndMetadata(5)}
LEADERS = cluster({P0: 1, P1: 1})
BOTH_VERSIONS = pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])


class TransactionalProducerFixture:
    """The manager and core of one producer; the test acts as the coordinators."""

    def __init__(self, *, is_v2: bool, **options: Any) -> None:
        self.is_v2 = is_v2
        self.manager = TransactionManager(TRANSACTIONAL_ID, TIMEOUT_MS)
        self.core: ProduceCore = core(TransactionalIdentity(self.manager), **options)

    @property
    def state(self) -> TransactionState:
        return self.manager.lifecycle.state

    def next_request(self) -> Any:
        """Return the producer's next message; None if there is none."""
        request = self.manager.next_request(has_incomplete=bool(self.core.accumulator.incomplete))
        return None if request is None else request.make(request.highest_version)

    def respond(self, response: ApiMessage, version: int = 4) -> Step:
        return self.manager.on_response(response, version)

    def exchange(self, response: ApiMessage, version: int = 4) -> Any:
        """Respond to the next message and return it."""
        message = self.next_request()
        assert message is not None
        self.respond(response, version)
        return message

    def initialize(self, producer_id: int = 7, epoch: int = 0, *, version: int = 4) -> None:
        """Initialize the producer to READY."""
        self.manager.begin_init(is_v2=self.is_v2)
        self.exchange(init_producer_id_response(producer_id, epoch), version)
        self.manager.lifecycle.take_result()

    def open(self, *partitions: TopicPartition) -> None:
        """Begin a transaction with these partitions."""
        self.manager.begin_transaction()
        for partition in partitions:
            self.manager.add_partition(partition)
        if partitions and not self.is_v2:
            self.exchange(add_partitions_response(*partitions))

    def commit(self) -> None:
        self.manager.begin_commit(is_v2=self.is_v2)

    def abort(self) -> None:
        self.manager.begin_abort(is_v2=self.is_v2)


def ready(*, is_v2: bool = False, version: int = 4, **options: Any) -> TransactionalProducerFixture:
    """Return an initialized producer; `version` of InitProducerId decides whether it can raise its epoch."""
    producer = TransactionalProducerFixture(is_v2=is_v2, **options)
    producer.initialize(version=version)
    return producer


def put(
    producer: TransactionalProducerFixture, value: bytes = b"high", partition: TopicPartition = P0
) -> Outcome:
    """Send one record."""
    outcome = put_or_fail(producer.core.accumulator, partition, value)
    producer.manager.add_partition(partition)
    return outcome


def init_producer_id_response(
    producer_id: int = 7, epoch: int = 0, code: ErrorCode = ErrorCode.NONE
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


def add_partitions_response(
    *partitions: TopicPartition, code: ErrorCode = ErrorCode.NONE
) -> AddPartitionsToTxnResponse:
    return add_partitions_results_response(dict.fromkeys(partitions, code))


def add_partitions_results_response(codes: dict[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=(
                    AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code),
                ),
            )
            for (topic, number), code in codes.items()
        )
    )


def add_offsets_response(code: ErrorCode = ErrorCode.NONE) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)


def txn_offset_commit_response(codes: dict[TopicPartition, ErrorCode]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic,
                partitions=(TxnOffsetCommitResponsePartition(partition_index=number, error_code=code),),
            )
            for (topic, number), code in codes.items()
        )
    )


def end_txn_response(
    code: ErrorCode = ErrorCode.NONE, producer_id: int = -1, producer_epoch: int = -1
) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=producer_id, producer_epoch=producer_epoch)
