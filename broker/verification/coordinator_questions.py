"""Asking transaction coordinators whether partitions are in a transaction, or to add them to it.

What comes up while a request to a broker is under way goes into the next one, all together: at most one
request per broker is in flight. Of a transactional id there is one question in it, the one of the newest
epoch; who asked before is told to come again, because its client has done so already.

| the coordinator, or the way to it | what is told |
|---|---|
| nobody leads the coordinator's partition | COORDINATOR_NOT_AVAILABLE |
| the broker cannot be reached, or does not answer | NETWORK_EXCEPTION |
| it does not know such questions | nothing is refused; NETWORK_EXCEPTION when it was to add partitions |
| PRODUCER_FENCED | INVALID_PRODUCER_EPOCH, which producers expect |
| TRANSACTION_ABORTABLE, for an older client | INVALID_TXN_STATE |

Bounds: a question per request in hand. I/O: the channel to brokers; one task per broker that is asked.
Source: AddPartitionsToTxnManager of Apache Kafka 4.3; KIP-890.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from broker.coordinator.partitioning import partition_for
from broker.verification.transaction import ClientSupport, ProducerTransaction
from cluster.image import NO_LEADER, MetadataImage
from cluster.topic_names import TRANSACTION_STATE_TOPIC
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import BrokerId, TopicPartition
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
Refusals = dict[TopicPartition, ErrorCode]
"""The partitions that are not in the transaction, and why."""


class BrokerRequests(Protocol):
    """Sends requests to brokers; `broker.broker_channel.BrokerChannel` does."""

    async def request(
        self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT], /
    ) -> ResponseT:
        """One attempt within the request timeout; KafkaError when there is no answer."""
        ...


@dataclass(slots=True, eq=False)
class _Question:
    transaction: ProducerTransaction
    partitions: tuple[TopicPartition, ...]
    answer: asyncio.Future[Refusals]

    def refuse(self, code: ErrorCode) -> None:
        self.tell(dict.fromkeys(self.partitions, code))

    def tell(self, refusals: Refusals) -> None:
        if not self.answer.done():
            self.answer.set_result(refusals)


class CoordinatorQuestions:
    """See the module; `close` at the end."""

    def __init__(self, brokers: BrokerRequests, image: Callable[[], MetadataImage]) -> None:
        self._brokers = brokers
        self._image = image
        self._waiting: dict[BrokerId, dict[str, _Question]] = {}
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        self._is_closed = False
        self.failures = 0
        """Partitions of which the answer was not that they are in the transaction."""

    async def ask(self, transaction: ProducerTransaction, partitions: Iterable[TopicPartition]) -> Refusals:
        """Which of `partitions` are not in the transaction, nor could be added to it if that was asked."""
        question = _Question(transaction, tuple(partitions), asyncio.get_running_loop().create_future())
        coordinator = self._coordinator(transaction.transactional_id)
        if coordinator is None or self._is_closed:
            question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._line_up(coordinator, question)
        refusals = await question.answer
        self.failures += len(refusals)
        return refusals

    async def close(self) -> None:
        """Ask nothing more; who waits is told NETWORK_EXCEPTION."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for questions in self._waiting.values():
            for question in questions.values():
                question.refuse(ErrorCode.NETWORK_EXCEPTION)
        self._waiting.clear()

    def _coordinator(self, transactional_id: str) -> BrokerId | None:
        image = self._image()
        topic = image.topics_by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        broker = None if leader == NO_LEADER else image.brokers.get(leader)
        return None if broker is None or broker.fenced else leader

    def _line_up(self, coordinator: BrokerId, question: _Question) -> None:
        waiting = self._waiting.setdefault(coordinator, {})
        transactional_id = question.transaction.transactional_id
        earlier = waiting.get(transactional_id)
        if earlier is not None:
            known, new = earlier.transaction, question.transaction
            # Of different producer ids the coordinator has to say which one is replaced.
            is_same = known.producer_id == new.producer_id
            if is_same and known.producer_epoch > new.producer_epoch:
                question.refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            is_older = is_same and known.producer_epoch < new.producer_epoch
            earlier.refuse(ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION)
        waiting[transactional_id] = question
        if coordinator not in self._tasks:
            self._tasks[coordinator] = asyncio.get_running_loop().create_task(self._ask_all(coordinator))

    async def _ask_all(self, coordinator: BrokerId) -> None:
        """Until nothing is to be asked of this broker."""
        try:
            while (questions := self._waiting.pop(coordinator, None)) is not None:
                await self._ask_these(coordinator, list(questions.values()))
        finally:
            del self._tasks[coordinator]

    async def _ask_these(self, coordinator: BrokerId, questions: list[_Question]) -> None:
        request = AddPartitionsToTxnRequest(transactions=tuple(map(_asked, questions)))
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            response = await self._brokers.request(coordinator, request, AddPartitionsToTxnResponse)
            failure = ErrorCode.UNKNOWN_SERVER_ERROR
            _tell(questions, response)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                logger.warning("broker %d verifies no transactions, so none is here: %s", coordinator, error)
                for question in questions:
                    if question.transaction.support is not ClientSupport.ADDS_PARTITIONS:
                        question.tell({})
            else:
                logger.warning("broker %d does not say what is in transactions: %s", coordinator, error)
        except Exception:
            logger.exception("cannot ask broker %d what is in transactions", coordinator)
        finally:
            # Whatever happened, nobody must wait for ever.
            for question in questions:
                question.refuse(failure)


def _asked(question: _Question) -> AddPartitionsToTxnTransaction:
    transactional_id, producer_id, producer_epoch, support = question.transaction
    topics: dict[str, list[int]] = {}
    for topic, index in question.partitions:
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=support is not ClientSupport.ADDS_PARTITIONS,
        topics=tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
        ),
    )


def _tell(questions: list[_Question], response: AddPartitionsToTxnResponse) -> None:
    """Hand out what the coordinator said; one it says nothing of is left without an answer."""
    if response.error_code:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # A matter between brokers, of which clients know nothing.
            code = ErrorCode.INVALID_TXN_STATE
        for question in questions:
            question.refuse(code)
        return
    results = {result.transactional_id: result for result in response.results_by_transaction}
    for question in questions:
        result = results.get(question.transaction.transactional_id)
        if result is None:
            continue
        support = question.transaction.support
        question.tell(
            {
                TopicPartition(topic.name, partition.partition_index): _told(
                    ErrorCode(partition.partition_error_code), support
                )
                for topic in result.topic_results
                for partition in topic.results_by_partition
                if partition.partition_error_code
            }
        )


_TOLD_AS: Final = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}


def _told(code: ErrorCode, support: ClientSupport) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.INVALID_STATE:
        return ErrorCode.INVALID_TXN_STATE
    return _TOLD_AS.get(code, code)
