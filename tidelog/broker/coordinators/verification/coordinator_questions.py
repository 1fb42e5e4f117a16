"""Requests to transaction coordinators: are partitions in a transaction, or add them to it.

All questions for a broker that come up in one turn of the event loop go into one AddPartitionsToTxn request,
and up to `REQUESTS_IN_FLIGHT` requests are in flight to a broker. When there are that many, the next request
takes all questions that wait by then. Of a transactional id one question is in flight, because a coordinator
refuses a second change before the first is committed; questions of the same producer epoch are merged.

| coordinator, or the way to it | result |
|---|---|
| nobody leads the coordinator's partition | COORDINATOR_NOT_AVAILABLE |
| the broker cannot be reached, or does not respond | NETWORK_EXCEPTION |
| the broker does not know such requests | nothing is refused; NETWORK_EXCEPTION for partitions to add |
| PRODUCER_FENCED | INVALID_PRODUCER_EPOCH, which producers expect |
| TRANSACTION_ABORTABLE, for an older client | INVALID_TXN_STATE |

Bounds: one question per produce request or offset commit that waits; `TRANSACTIONS_PER_REQUEST`. I/O: the
channel to brokers; one task per request in flight.
Source: AddPartitionsToTxnManager of Apache Kafka 4.3, which has one request in flight; KIP-890.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Protocol, TypeVar

from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.broker.coordinators.verification.transaction import ClientSupport, ProducerTransaction
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.cluster.topic_names import TRANSACTION_STATE_TOPIC
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
Refusals = dict[TopicPartition, ErrorCode]
"""The partitions that are not in the transaction, and why."""

REQUESTS_IN_FLIGHT: Final = 4
TRANSACTIONS_PER_REQUEST: Final = 500


class BrokerRequests(Protocol):
    """Sends requests to brokers; `tidelog.broker.channels.broker_channel.BrokerChannel` does."""

    async def request(
        self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT], /
    ) -> ResponseT:
        """One attempt within the request timeout; KafkaError when there is no answer."""
        ...


@dataclass(slots=True, eq=False)
class _Question:
    """Partitions of one transaction that go into the same request; `waiters` requests wait for the answer."""

    transaction: ProducerTransaction
    waiters: int = 0
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    answer: asyncio.Future[Refusals] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def refuse(self, code: ErrorCode) -> None:
        self.complete(dict.fromkeys(self.partitions, code))

    def complete(self, refusals: Refusals) -> None:
        if not self.answer.done():
            self.answer.set_result(refusals)


@dataclass(slots=True, eq=False)
class _Coordinator:
    """What is asked of one broker.

    Invariant: every transactional id of `waiting` is either in `ready` or in `in_flight`.
    """

    waiting: dict[str, deque[_Question]] = field(default_factory=dict)
    ready: dict[str, None] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    requests: dict[asyncio.Task[None], list[_Question]] = field(default_factory=dict)
    is_scheduled: bool = False

    def add(self, transaction: ProducerTransaction, partitions: Iterable[TopicPartition]) -> _Question:
        transactional_id = transaction.transactional_id
        questions = self.waiting.setdefault(transactional_id, deque())
        if not questions or questions[-1].transaction != transaction:
            questions.append(_Question(transaction))
        questions[-1].partitions.update(dict.fromkeys(partitions))
        if transactional_id not in self.in_flight:
            self.ready[transactional_id] = None
        return questions[-1]

    def forget(self, question: _Question) -> None:
        """Drop a question that nobody waits for, if it has not been sent."""
        transactional_id = question.transaction.transactional_id
        questions = self.waiting.get(transactional_id)
        if questions is not None and question in questions:
            questions.remove(question)
            if not questions:
                del self.waiting[transactional_id]
                self.ready.pop(transactional_id, None)

    def take(self) -> list[_Question]:
        """Return the questions of the next request, at most one of each transactional id."""
        taken: list[_Question] = []
        while self.ready and len(taken) < TRANSACTIONS_PER_REQUEST:
            transactional_id = next(iter(self.ready))
            del self.ready[transactional_id]
            questions = self.waiting[transactional_id]
            taken.append(questions.popleft())
            if not questions:
                del self.waiting[transactional_id]
            self.in_flight.add(transactional_id)
        return taken

    def completed(self, questions: Iterable[_Question]) -> None:
        for question in questions:
            transactional_id = question.transaction.transactional_id
            self.in_flight.remove(transactional_id)
            if transactional_id in self.waiting:
                self.ready[transactional_id] = None


class CoordinatorQuestions:
    """Asks coordinators; `close` at the end."""

    def __init__(
        self, brokers: BrokerRequests, image: Callable[[], MetadataImage], monotonic_ms: Callable[[], int]
    ) -> None:
        self._brokers = brokers
        self._image = image
        self._monotonic_ms = monotonic_ms
        self._coordinators: dict[BrokerId, _Coordinator] = {}
        self._is_closed = False
        self.failures = 0
        """Partitions that were not confirmed to be in their transaction."""
        self.verifications = 0
        """Times that a coordinator was asked for a producer."""
        self.verification_ms = 0
        """How long all of them took together."""

    async def ask(self, transaction: ProducerTransaction, partitions: Collection[TopicPartition]) -> Refusals:
        """Return the partitions that are not in the transaction, or could not be added to it."""
        began_ms = self._monotonic_ms()
        broker = self._coordinator(transaction.transactional_id)
        if broker is None or self._is_closed:
            refusals = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            found = await self._answer(broker, transaction, partitions)
            refusals = {each: found[each] for each in partitions if each in found}
        self.failures += len(refusals)
        self.verifications += 1
        self.verification_ms += self._monotonic_ms() - began_ms
        return refusals

    async def close(self) -> None:
        """Send no more requests; those who wait get NETWORK_EXCEPTION."""
        self._is_closed = True
        coordinators, self._coordinators = list(self._coordinators.values()), {}
        requests = {task: asked for each in coordinators for task, asked in each.requests.items()}
        for task in requests:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        waiting = [asked for each in coordinators for asked in each.waiting.values()]
        # A task that is cancelled before its first step completes nothing itself.
        for question in chain.from_iterable([*requests.values(), *waiting]):
            question.refuse(ErrorCode.NETWORK_EXCEPTION)

    def _coordinator(self, transactional_id: str) -> BrokerId | None:
        image = self._image()
        topic = image.topics_by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        broker = None if leader == NO_LEADER else image.brokers.get(leader)
        return None if broker is None or broker.fenced else leader

    async def _answer(
        self, broker: BrokerId, transaction: ProducerTransaction, partitions: Iterable[TopicPartition]
    ) -> Refusals:
        coordinator = self._coordinators.setdefault(broker, _Coordinator())
        question = coordinator.add(transaction, partitions)
        if not coordinator.is_scheduled:
            coordinator.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_scheduled, broker, coordinator)
        question.waiters += 1
        try:
            # Others may wait for the same answer, which must outlive a caller that gives up.
            return await asyncio.shield(question.answer)
        finally:
            question.waiters -= 1
            if not question.waiters:
                coordinator.forget(question)

    def _send_scheduled(self, broker: BrokerId, coordinator: _Coordinator) -> None:
        coordinator.is_scheduled = False
        self._send(broker, coordinator)

    def _send(self, broker: BrokerId, coordinator: _Coordinator) -> None:
        """Send what is ready, as far as requests may be in flight."""
        while len(coordinator.requests) < REQUESTS_IN_FLIGHT and not self._is_closed:
            questions = coordinator.take()
            if not questions:
                break
            request = asyncio.get_running_loop().create_task(self._request(broker, coordinator, questions))
            coordinator.requests[request] = questions
        is_idle = not coordinator.requests and not coordinator.waiting
        if is_idle and self._coordinators.get(broker) is coordinator:
            del self._coordinators[broker]

    async def _request(self, broker: BrokerId, coordinator: _Coordinator, questions: list[_Question]) -> None:
        try:
            await self._ask_these(broker, questions)
        finally:
            request = asyncio.current_task()
            assert request is not None
            coordinator.requests.pop(request, None)
            coordinator.completed(questions)
            self._send(broker, coordinator)

    async def _ask_these(self, broker: BrokerId, questions: list[_Question]) -> None:
        request = AddPartitionsToTxnRequest(transactions=tuple(map(_asked, questions)))
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            response = await self._brokers.request(broker, request, AddPartitionsToTxnResponse)
            failure = ErrorCode.UNKNOWN_SERVER_ERROR
            _complete(questions, response)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                logger.warning("broker %d verifies no transactions, so none is here: %s", broker, error)
                for question in questions:
                    if question.transaction.support is not ClientSupport.ADDS_PARTITIONS:
                        question.complete({})
            else:
                logger.warning("broker %d does not say what is in transactions: %s", broker, error)
        except Exception:
            logger.exception("cannot ask broker %d what is in transactions", broker)
        finally:
            # Whatever happened, no caller may wait for ever.
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


def _complete(questions: list[_Question], response: AddPartitionsToTxnResponse) -> None:
    """Complete the questions that the coordinator has answered."""
    if response.error_code:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # A matter between brokers, which clients do not know.
            code = ErrorCode.INVALID_TXN_STATE
        for question in questions:
            question.refuse(code)
        return
    results = {result.transactional_id: result for result in response.results_by_transaction}
    for question in questions:
        result = results.get(question.transaction.transactional_id)
        if result is not None:
            question.complete(_refusals(question, result))


def _refusals(question: _Question, result: AddPartitionsToTxnResult) -> Refusals:
    codes = {
        TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    support = question.transaction.support
    found = {each: codes.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in question.partitions}
    return {each: _told(ErrorCode(code), support) for each, code in found.items() if code}


_TOLD_AS: Final = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}


def _told(code: ErrorCode, support: ClientSupport) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.INVALID_STATE:
        return ErrorCode.INVALID_TXN_STATE
    return _TOLD_AS.get(code, code)
