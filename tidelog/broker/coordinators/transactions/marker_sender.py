"""Sends the ends of transactions to the leaders of their partitions, until all have written their markers.

Up to `REQUESTS_IN_FLIGHT` requests are in flight to a broker, because each is acknowledged only when all of
its markers are replicated. When there are that many, the next request takes all markers that are queued by
then. A partition whose leader does not respond, returns an error or is unknown is retried with the leader of
that time. A partition that has been deleted needs no marker.

| response for a partition | result |
|---|---|
| NONE | the marker is written |
| INVALID_PRODUCER_EPOCH | the same: a later epoch is given only after the end of a transaction |
| UNSUPPORTED_FOR_MESSAGE_FORMAT | the same: the partition has no records of the transaction |
| any other, or none | retry after `RETRY_MS` |

Bounds: a request has at most `PARTITIONS_PER_REQUEST` partitions, or those of one transaction if it has more.
The queues hold the partitions of the prepared transactions of this node's coordinators.
Source: TransactionMarkerChannelManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tidelog.broker.channels.broker_channel import BrokerChannel
from tidelog.broker.coordinators.shared.timer import Timer, TimerHandle
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, ProducerId, TopicPartition
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger(__name__)

PARTITIONS_PER_REQUEST: Final = 10_000
RETRY_MS: Final = 50
REQUESTS_IN_FLIGHT: Final = 4

_WRITTEN_CODES: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
)

WrittenCallback = Callable[[PreparedTransaction, Iterable[TopicPartition]], None]


class _Markers(NamedTuple):
    """Partitions that all need the same marker."""

    transaction: PreparedTransaction
    partitions: tuple[TopicPartition, ...]


class MarkerSender:
    """Sends markers, and calls `on_written` for partitions that have theirs or need none."""

    def __init__(
        self,
        brokers: BrokerChannel,
        image: Callable[[], MetadataImage],
        timer: Timer,
        on_written: WrittenCallback,
    ) -> None:
        self._brokers = brokers
        self._image = image
        self._timer = timer
        self._on_written = on_written
        self._queues: dict[BrokerId, deque[_Markers]] = {}
        self._tasks: dict[BrokerId, set[asyncio.Task[None]]] = {}
        self._new_markers: list[_Markers] = []
        self._waiting_markers: list[_Markers] = []
        """Markers without a leader or with an error, which wait for a retry."""
        self._retry_handle: TimerHandle | None = None
        self._is_closed = False

    @property
    def transactions_without_leader(self) -> int:
        """The number of transactions that wait for the leader of a partition."""
        return len(self._waiting_markers)

    def send(self, transaction: PreparedTransaction) -> None:
        """Queue the markers of a transaction. Return at once, before any callback."""
        if not self._new_markers:
            asyncio.get_running_loop().call_soon(self._queue_new)
        self._new_markers.append(_Markers(transaction, tuple(sorted(transaction.partitions))))

    async def close(self) -> None:
        """Cancel all requests and send no more."""
        self._is_closed = True
        if self._retry_handle is not None:
            self._retry_handle.cancel()
        tasks = [task for of_broker in self._tasks.values() for task in of_broker]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Queues

    def _queue_new(self) -> None:
        new, self._new_markers = self._new_markers, []
        self._queue_all(new)

    def _retry_later(self, markers: _Markers) -> None:
        if markers.transaction.is_cancelled or self._is_closed:
            return
        self._waiting_markers.append(markers)
        if self._retry_handle is None:
            self._retry_handle = self._timer.schedule(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._retry_handle = None
        waiting, self._waiting_markers = self._waiting_markers, []
        self._queue_all(waiting)

    def _queue_all(self, batch: Iterable[_Markers]) -> None:
        for transaction, partitions in batch:
            if not transaction.is_cancelled and not self._is_closed:
                self._queue(transaction, partitions)
        for broker, queue in self._queues.items():
            if queue:
                self._start(broker)

    def _queue(self, transaction: PreparedTransaction, partitions: Iterable[TopicPartition]) -> None:
        image = self._image()
        by_leader: defaultdict[BrokerId | None, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            by_leader[_leader_of(image, partition)].append(partition)
        deleted = by_leader.pop(None, None)
        for leader, of_leader in by_leader.items():
            markers = _Markers(transaction, tuple(of_leader))
            if leader == NO_LEADER:
                self._retry_later(markers)
            elif leader is not None:
                self._queues.setdefault(leader, deque()).append(markers)
        if deleted:
            logger.info(
                "%s needs no markers for deleted partitions %s", transaction.transactional_id, deleted
            )
            self._on_written(transaction, deleted)

    def _start(self, broker: BrokerId) -> None:
        """Start another request, with the queued markers, if one more may be in flight."""
        tasks = self._tasks.setdefault(broker, set())
        if len(tasks) < REQUESTS_IN_FLIGHT:
            name = f"markers-to-{broker}"
            tasks.add(asyncio.get_running_loop().create_task(self._serve(broker, tasks), name=name))

    # Sending

    async def _serve(self, broker: BrokerId, tasks: set[asyncio.Task[None]]) -> None:
        """Send the queued markers of one broker until the queue is empty."""
        queue = self._queues[broker]
        try:
            while batch := _take(queue):
                try:
                    await self._write(broker, batch)
                except KafkaError as error:
                    # These partitions may have new leaders: the rest of the queue is retried, too.
                    batch += queue
                    queue.clear()
                    logger.info("Cannot write markers of %d transactions: %s; retrying", len(batch), error)
                    self._retry_all_later(batch)
                except Exception:
                    logger.exception("Cannot send markers to broker %s; retrying", broker)
                    self._retry_all_later(batch)
        finally:
            # No other code runs between the last check of the queue and this.
            task = asyncio.current_task()
            assert task is not None
            tasks.remove(task)
            if not tasks:
                del self._tasks[broker], self._queues[broker]

    async def _write(self, broker: BrokerId, batch: list[_Markers]) -> None:
        """Send one request and process its response. Raise KafkaError if there is no response."""
        request = WriteTxnMarkersRequest(markers=tuple(_message(*markers) for markers in batch))
        error_codes = _error_codes(await self._brokers.request(broker, request, WriteTxnMarkersResponse))
        missing: list[_Markers] = []
        errors: set[int | None] = set()
        for transaction, partitions in batch:
            codes = error_codes.get(transaction.producer_id, {})
            written = [each for each in partitions if codes.get(each) in _WRITTEN_CODES]
            if len(written) < len(partitions):
                failed = {
                    each: codes.get(each) for each in partitions if codes.get(each) not in _WRITTEN_CODES
                }
                missing.append(_Markers(transaction, tuple(failed)))
                errors.update(failed.values())
            if written and not transaction.is_cancelled:
                self._on_written(transaction, written)
        if missing:
            _log_missing(missing, errors)
            self._retry_all_later(missing)

    def _retry_all_later(self, batch: Iterable[_Markers]) -> None:
        for markers in batch:
            self._retry_later(markers)


def _leader_of(image: MetadataImage, partition: TopicPartition) -> BrokerId | None:
    """Return the leader of a partition; NO_LEADER if none is available, None if it does not exist."""
    topic = image.topics_by_name.get(partition.topic)
    partition_image = None if topic is None else topic.partitions.get(partition.partition)
    if partition_image is None:
        return None
    broker = image.brokers.get(partition_image.leader)
    return NO_LEADER if broker is None or broker.fenced else partition_image.leader


def _take(queue: deque[_Markers]) -> list[_Markers]:
    """Return the next markers that must still be written, as many as fit into a request."""
    batch: list[_Markers] = []
    size = 0
    while queue and (not batch or size + len(queue[0].partitions) <= PARTITIONS_PER_REQUEST):
        markers = queue.popleft()
        if not markers.transaction.is_cancelled:
            batch.append(markers)
            size += len(markers.partitions)
    return batch


def _log_missing(missing: list[_Markers], errors: Iterable[int | None]) -> None:
    """Log one line for all transactions, because it is repeated with every attempt, maybe for hours."""
    transaction, partitions = missing[0]
    logger.info(
        "Markers of %d transactions are missing (errors %s), one of them of %r in %s; retrying",
        len(missing), errors, transaction.transactional_id, partitions[0],
    )  # fmt: skip


def _message(transaction: PreparedTransaction, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(index)
    return WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=transaction.is_commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in topics.items()
        ),
        coordinator_epoch=transaction.coordinator_epoch,
        transaction_version=transaction.transaction_version,
    )


def _error_codes(response: WriteTxnMarkersResponse) -> dict[ProducerId, dict[TopicPartition, int]]:
    codes: defaultdict[ProducerId, dict[TopicPartition, int]] = defaultdict(dict)
    for marker in response.markers:
        for topic in marker.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                codes[marker.producer_id][partition] = result.error_code
    return codes
