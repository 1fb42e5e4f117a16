"""Requests to transaction coordinators that verify partitions of transactions or add them.

All partitions for a broker that are added in one turn of the event loop are sent in one AddPartitionsToTxn
request. Up to `REQUESTS_IN_FLIGHT` requests are in flight to a broker; when there are that many, the next
request takes everything that waits by then. Each transactional id has at most one change in flight, because
a coordinator rejects a second one before the first is committed. Partitions of the same producer epoch are
merged.

| the coordinator, or its broker | result |
|---|---|
| the coordinator's partition has no leader | COORDINATOR_NOT_AVAILABLE |
| the broker cannot be reached, or does not respond | NETWORK_EXCEPTION |
| the broker does not support it | no error for verification; NETWORK_EXCEPTION for partitions to add |
| PRODUCER_FENCED | INVALID_PRODUCER_EPOCH, which producers expect |
| TRANSACTION_ABORTABLE, for an older client | INVALID_TXN_STATE |

Bounds: one entry for each produce request or offset commit that waits; `TRANSACTIONS_PER_REQUEST`.
I/O: the channel to brokers; one task for each request in flight.
Source: AddPartitionsToTxnManager of Apache Kafka 4.3, which has one request in flight; KIP-890.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from itertools import chain
from typing import Final, Protocol, TypeVar

from tidelog.base.dataclass import dataclass
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
PartitionErrors = dict[TopicPartition, ErrorCode]
"""The partitions that are not in the transaction, with their errors."""

REQUESTS_IN_FLIGHT: Final = 4
TRANSACTIONS_PER_REQUEST: Final = 500


class BrokerRequests(Protocol):
    """Sends requests to brokers; implemented by `tidelog.broker.channels.broker_channel.BrokerChannel`."""

    async def request(
        self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT], /
    ) -> ResponseT:
        """Send one request, once. Raise KafkaError if there is no response within the request timeout."""
        ...


@dataclass(slots=True, eq=False)
class _Addition:
    """Partitions of one transaction that are sent together; `waiters` callers wait for the result."""

    transaction: ProducerTransaction
    waiters: int = 0
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    result: asyncio.Future[PartitionErrors] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def fail(self, code: ErrorCode) -> None:
        """Complete the addition with the same error for all partitions."""
        self.complete(dict.fromkeys(self.partitions, code))

    def complete(self, errors: PartitionErrors) -> None:
        """Set the result, unless there is one already."""
        if not self.result.done():
            self.result.set_result(errors)


@dataclass(slots=True, eq=False)
class _BrokerQueue:
    """The additions that are sent to the transaction coordinators of one broker.

    Invariant: every transactional id of `waiting` is either in `ready` or in `in_flight`.
    """

    waiting: dict[str, deque[_Addition]] = field(default_factory=dict)
    ready: dict[str, None] = field(default_factory=dict)
    in_flight: set[str] = field(default_factory=set)
    requests: dict[asyncio.Task[None], list[_Addition]] = field(default_factory=dict)
    is_scheduled: bool = False

    def add(self, transaction: ProducerTransaction, partitions: Iterable[TopicPartition]) -> _Addition:
        """Return an addition that contains `partitions`: the last one of the transaction, or a new one."""
        transactional_id = transaction.transactional_id
        additions = self.waiting.setdefault(transactional_id, deque())
        if not additions or additions[-1].transaction != transaction:
            additions.append(_Addition(transaction))
        additions[-1].partitions.update(dict.fromkeys(partitions))
        if transactional_id not in self.in_flight:
            self.ready[transactional_id] = None
        return additions[-1]

    def discard(self, addition: _Addition) -> None:
        """Remove an addition without waiters, if it has not been sent."""
        transactional_id = addition.transaction.transactional_id
        additions = self.waiting.get(transactional_id)
        if additions is not None and addition in additions:
            additions.remove(addition)
            if not additions:
                del self.waiting[transactional_id]
                self.ready.pop(transactional_id, None)

    def take(self) -> list[_Addition]:
        """Return the additions of the next request, at most one of each transactional id."""
        next_additions: list[_Addition] = []
        while self.ready and len(next_additions) < TRANSACTIONS_PER_REQUEST:
            transactional_id = next(iter(self.ready))
            del self.ready[transactional_id]
            additions = self.waiting[transactional_id]
            next_additions.append(additions.popleft())
            if not additions:
                del self.waiting[transactional_id]
            self.in_flight.add(transactional_id)
        return next_additions

    def on_response(self, additions: Iterable[_Addition]) -> None:
        """Note that a request has ended: the next additions of its transactional ids are ready."""
        for addition in additions:
            transactional_id = addition.transaction.transactional_id
            self.in_flight.remove(transactional_id)
            if transactional_id in self.waiting:
                self.ready[transactional_id] = None


class AddPartitionsToTxnManager:
    """Sends verifications and additions to coordinators. Call `close` at the end."""

    def __init__(
        self, brokers: BrokerRequests, image: Callable[[], MetadataImage], monotonic_ms: Callable[[], int]
    ) -> None:
        self._brokers = brokers
        self._image = image
        self._monotonic_ms = monotonic_ms
        self._queues: dict[BrokerId, _BrokerQueue] = {}
        self._is_closed = False
        self.failures = 0
        """The number of partitions that were not verified to be in their transaction."""
        self.verifications = 0
        """The number of calls of `add_or_verify`."""
        self.verification_ms = 0
        """The total time of these calls."""

    async def add_or_verify(
        self, transaction: ProducerTransaction, partitions: Collection[TopicPartition]
    ) -> PartitionErrors:
        """Return the errors of the partitions that are not in the transaction or could not be added.

        The result is empty if all are in it. Without a known coordinator, and after `close`, each partition
        has COORDINATOR_NOT_AVAILABLE.
        """
        started_ms = self._monotonic_ms()
        broker = self._coordinator(transaction.transactional_id)
        if broker is None or self._is_closed:
            errors = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            all_errors = await self._wait_for_result(broker, transaction, partitions)
            errors = {each: all_errors[each] for each in partitions if each in all_errors}
        self.failures += len(errors)
        self.verifications += 1
        self.verification_ms += self._monotonic_ms() - started_ms
        return errors

    async def close(self) -> None:
        """Send no more requests. All waiting callers get NETWORK_EXCEPTION."""
        self._is_closed = True
        queues, self._queues = list(self._queues.values()), {}
        requests = {task: sent for each in queues for task, sent in each.requests.items()}
        for task in requests:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
        waiting = [additions for each in queues for additions in each.waiting.values()]
        # A task that is cancelled before its first step completes nothing itself.
        for addition in chain.from_iterable([*requests.values(), *waiting]):
            addition.fail(ErrorCode.NETWORK_EXCEPTION)

    def _coordinator(self, transactional_id: str) -> BrokerId | None:
        image = self._image()
        topic = image.topics_by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        broker = None if leader == NO_LEADER else image.brokers.get(leader)
        return None if broker is None or broker.fenced else leader

    async def _wait_for_result(
        self, broker: BrokerId, transaction: ProducerTransaction, partitions: Iterable[TopicPartition]
    ) -> PartitionErrors:
        queue = self._queues.setdefault(broker, _BrokerQueue())
        addition = queue.add(transaction, partitions)
        if not queue.is_scheduled:
            queue.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_scheduled, broker, queue)
        addition.waiters += 1
        try:
            # Other callers may wait for the same result: it must not be cancelled with one of them.
            return await asyncio.shield(addition.result)
        finally:
            addition.waiters -= 1
            if not addition.waiters:
                queue.discard(addition)

    def _send_scheduled(self, broker: BrokerId, queue: _BrokerQueue) -> None:
        queue.is_scheduled = False
        self._send(broker, queue)

    def _send(self, broker: BrokerId, queue: _BrokerQueue) -> None:
        """Send the ready additions, as far as the requests in flight allow."""
        while len(queue.requests) < REQUESTS_IN_FLIGHT and not self._is_closed:
            additions = queue.take()
            if not additions:
                break
            request = asyncio.get_running_loop().create_task(self._request(broker, queue, additions))
            queue.requests[request] = additions
        is_idle = not queue.requests and not queue.waiting
        if is_idle and self._queues.get(broker) is queue:
            del self._queues[broker]

    async def _request(self, broker: BrokerId, queue: _BrokerQueue, additions: list[_Addition]) -> None:
        try:
            await self._send_additions(broker, additions)
        finally:
            request = asyncio.current_task()
            assert request is not None
            queue.requests.pop(request, None)
            queue.on_response(additions)
            self._send(broker, queue)

    async def _send_additions(self, broker: BrokerId, additions: list[_Addition]) -> None:
        request = AddPartitionsToTxnRequest(transactions=tuple(map(_message, additions)))
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            response = await self._brokers.request(broker, request, AddPartitionsToTxnResponse)
            failure = ErrorCode.UNKNOWN_SERVER_ERROR
            _complete(additions, response)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                logger.warning(
                    "Broker %d does not support verification: %s; accepting its transactions", broker, error
                )
                for addition in additions:
                    if addition.transaction.support is not ClientSupport.ADDS_PARTITIONS:
                        addition.complete({})
            else:
                logger.warning("Cannot verify transactions with broker %d: %s", broker, error)
        except Exception:
            logger.exception("Cannot verify transactions with broker %d", broker)
        finally:
            # After any failure, no caller may wait forever.
            for addition in additions:
                addition.fail(failure)


def _message(addition: _Addition) -> AddPartitionsToTxnTransaction:
    transactional_id, producer_id, producer_epoch, support = addition.transaction
    topics: dict[str, list[int]] = {}
    for topic, index in addition.partitions:
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


def _complete(additions: list[_Addition], response: AddPartitionsToTxnResponse) -> None:
    """Complete the additions that the response has a result for."""
    if response.error_code:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # Clients do not expect this error, which is between brokers.
            code = ErrorCode.INVALID_TXN_STATE
        for addition in additions:
            addition.fail(code)
        return
    results = {result.transactional_id: result for result in response.results_by_transaction}
    for addition in additions:
        result = results.get(addition.transaction.transactional_id)
        if result is not None:
            addition.complete(_errors_of(addition, result))


def _errors_of(addition: _Addition, result: AddPartitionsToTxnResult) -> PartitionErrors:
    codes = {
        TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    support = addition.transaction.support
    result_codes = {each: codes.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in addition.partitions}
    return {each: _error_for_client(ErrorCode(code), support) for each, code in result_codes.items() if code}


_ERRORS_FOR_CLIENTS: Final = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}


def _error_for_client(code: ErrorCode, support: ClientSupport) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.INVALID_STATE:
        return ErrorCode.INVALID_TXN_STATE
    return _ERRORS_FOR_CLIENTS.get(code, code)
