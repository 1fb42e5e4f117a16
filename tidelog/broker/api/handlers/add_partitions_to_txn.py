"""AddPartitionsToTxn (key 24), versions 0-5: add partitions to a transaction, or verify them.

- 2: PRODUCER_FENCED, before that INVALID_PRODUCER_EPOCH (KIP-588)
- 4: sent by brokers, for several transactions at once, to add or only to verify (KIP-890)
- 5: TRANSACTION_ABORTABLE

If a partition of a transaction does not exist, none is added, and the others get OPERATION_NOT_ATTEMPTED.
Internal topics can only be added by requests of brokers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidelog.broker.api.handlers.fencing import fencing_error
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch
from tidelog.broker.coordinators.transactions.metadata import TRANSACTION_VERSION_2
from tidelog.broker.coordinators.transactions.service import TransactionService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.cluster.topic_names import is_internal
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.steps import Steps, map_items

PRODUCER_FENCED_FROM_VERSION = 2
BATCHED_FROM_VERSION = 4


class _Outcome(NamedTuple):
    """The distinct partitions of a transaction; those that are not in `errors` have the result `code`."""

    partitions: Collection[TopicPartition]
    errors: Mapping[TopicPartition, ErrorCode]
    code: ErrorCode


class AddPartitionsToTxnHandler:
    """Passes each transaction to its coordinator."""

    def __init__(self, transactions: TransactionService, topics: TopicAccess) -> None:
        self._transactions = transactions
        self._topics = topics

    async def handle(
        self, context: RequestContext, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        """Return the error of each partition."""
        version = context.header.api_version
        if version < BATCHED_FROM_VERSION:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            outcome = await self._perform(context, transaction)
            results = await self._topics.slices.complete(_results(outcome))
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        transactions = await bounded_gather(self._result(context, each) for each in request.transactions)
        return AddPartitionsToTxnResponse(results_by_transaction=tuple(transactions))

    async def _result(
        self, context: RequestContext, transaction: AddPartitionsToTxnTransaction
    ) -> AddPartitionsToTxnResult:
        outcome = await self._perform(context, transaction)
        return AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=await self._topics.slices.complete(_results(outcome)),
        )

    async def _perform(self, context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> _Outcome:
        version = context.header.api_version
        partitions, errors = await self._topics.slices.complete(self._check_partitions(context, transaction))
        if errors:
            return _Outcome(partitions, errors, ErrorCode.OPERATION_NOT_ATTEMPTED)
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        transactional_id = transaction.transactional_id
        try:
            if transaction.verify_only:
                errors = self._transactions.verify_partitions(transactional_id, producer, partitions)
                return _Outcome(partitions, errors, ErrorCode.NONE)
            is_from_broker = version >= BATCHED_FROM_VERSION
            await self._transactions.add_partitions(
                transactional_id, producer, partitions, TRANSACTION_VERSION_2 if is_from_broker else 0
            )
        except KafkaError as error:
            code = fencing_error(error.code, version, PRODUCER_FENCED_FROM_VERSION)
            return _Outcome(partitions, {}, code)
        return _Outcome(partitions, {}, ErrorCode.NONE)

    def _check_partitions(
        self, context: RequestContext, transaction: AddPartitionsToTxnTransaction
    ) -> Steps[tuple[Collection[TopicPartition], Mapping[TopicPartition, ErrorCode]]]:
        """Return the distinct partitions, and the errors of those that cannot be added."""
        # Brokers send batches of transactions, for clients whose requests they have authorized.
        is_from_client = context.header.api_version < BATCHED_FROM_VERSION
        topics = self._topics.image().topics_by_name
        partitions: dict[TopicPartition, None] = {}
        errors: dict[TopicPartition, ErrorCode] = {}
        for requested in transaction.topics:
            topic = topics.get(requested.name)
            is_forbidden = is_from_client and (
                is_internal(requested.name)
                or not self._topics.authorizer.is_authorized(
                    context, AclOperation.WRITE, AclResourceType.TOPIC, requested.name
                )
            )
            for index in requested.partitions:
                partition = TopicPartition(requested.name, index)
                partitions[partition] = None
                if is_forbidden:
                    errors[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif topic is None or index not in topic.partitions:
                    errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                yield None
        return tuple(partitions), errors


def _results(outcome: _Outcome) -> Steps[tuple[AddPartitionsToTxnTopicResult, ...]]:
    topics: defaultdict[str, list[AddPartitionsToTxnPartitionResult]] = defaultdict(list)
    for partition in outcome.partitions:
        code = outcome.errors.get(partition, outcome.code)
        topics[partition.topic].append(
            AddPartitionsToTxnPartitionResult(partition_index=partition.partition, partition_error_code=code)
        )
        yield None
    return (
        yield from map_items(
            lambda topic: AddPartitionsToTxnTopicResult(name=topic[0], results_by_partition=tuple(topic[1])),
            topics.items(),
        )
    )
