"""A transaction coordinator with scripted responses, for tests of verification."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar, cast

from tests.support.replicas.replica_manager import Replicas
from tidelog.base.clock import Clock
from tidelog.broker.coordinators.verification.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from tidelog.broker.coordinators.verification.verifier import TransactionVerifier, VerificationSettings
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

SETTINGS = VerificationSettings(is_enabled=True, retry_backoff_ms=0, retry_backoff_max_ms=100)


class ScriptedCoordinator:
    """Replaces `BrokerRequests`; the test defines the responses of the brokers.

    `refusals` are the errors of partitions; all other partitions are in the transaction. `error` is the
    error of each whole response. `failure` is raised instead of a response. With a `gate`, responses wait
    until it is set.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[BrokerId, AddPartitionsToTxnRequest]] = []
        self.refusals: Mapping[TopicPartition, ErrorCode] = {}
        self.error = ErrorCode.NONE
        self.failure: ErrorCode | None = None
        self.gate: asyncio.Event | None = None

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        assert isinstance(message, AddPartitionsToTxnRequest)
        self.requests.append((broker_id, message))
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise KafkaError(self.failure, "defined by the test")
        if self.error:
            return cast(ResponseT, AddPartitionsToTxnResponse(error_code=self.error))
        return cast(
            ResponseT,
            AddPartitionsToTxnResponse(results_by_transaction=tuple(map(self._result, message.transactions))),
        )

    @property
    def requested_transactions(self) -> list[AddPartitionsToTxnTransaction]:
        """Return the transactions of all requests in order."""
        return [transaction for _, request in self.requests for transaction in request.transactions]

    def _result(self, transaction: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        return AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=tuple(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index,
                            partition_error_code=self.refusals.get(
                                TopicPartition(topic.name, index), ErrorCode.NONE
                            ),
                        )
                        for index in topic.partitions
                    ),
                )
                for topic in transaction.topics
            ),
        )


class VerificationFixture:
    """A verifier with partitions and its coordinator; `settings` may be changed."""

    def __init__(self, replicas: Replicas, clock: Clock | None = None) -> None:
        self.coordinator = ScriptedCoordinator()
        self.settings = SETTINGS
        verifier_clock = clock or replicas.clock
        self.add_partitions_manager = AddPartitionsToTxnManager(
            self.coordinator, lambda: replicas.image, verifier_clock.monotonic_ms
        )
        self.verifier = TransactionVerifier(
            replicas.manager, self.add_partitions_manager, verifier_clock, lambda: self.settings
        )
