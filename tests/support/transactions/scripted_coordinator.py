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
    """`BrokerRequests` to brokers whose answers the test gives.

    `refusals` are what it says of partitions, all others are in the transaction; `error` of each request
    as a whole; `failure` is raised. With a `gate` answers wait for it.
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
            raise KafkaError(self.failure, "as the test wants")
        if self.error:
            return cast(ResponseT, AddPartitionsToTxnResponse(error_code=self.error))
        return cast(
            ResponseT,
            AddPartitionsToTxnResponse(
                results_by_transaction=tuple(self._result(asked) for asked in message.transactions)
            ),
        )

    @property
    def asked(self) -> list[AddPartitionsToTxnTransaction]:
        """Return all requests in order."""
        return [one for _, request in self.requests for one in request.transactions]

    def _result(self, asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        return AddPartitionsToTxnResult(
            transactional_id=asked.transactional_id,
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
                for topic in asked.topics
            ),
        )


class VerificationFixture:
    """A verifier with partitions and its coordinator; `settings` may be changed."""

    def __init__(self, replicas: Replicas, clock: Clock | None = None) -> None:
        self.coordinator = ScriptedCoordinator()
        self.settings = SETTINGS
        used = clock or replicas.clock
        self.questions = AddPartitionsToTxnManager(
            self.coordinator, lambda: replicas.image, used.monotonic_ms
        )
        self.verifier = TransactionVerifier(replicas.manager, self.questions, used, lambda: self.settings)
