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
from tidelog.broker.coordinators.shared.shard import Timer, TimerHandle
from tidelog.broker.coordinators.transactions.marking import Marking
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

_WRITTEN: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
)

WrittenCallback = Callable[[Marking, Iterable[TopicPartition]], None]


class _Markers(NamedTuple):
    """Partitions that all need the same marker."""

    marking: Marking
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
        self._new: list[_Markers] = []
        self._waiting: list[_Markers] = []
        """Markers without a leader or with an error, which wait for a retry."""
        self._retry_handle: TimerHandle | None = None
        self._closed = False

    @property
    def transactions_without_leader(self) -> int:
        """The number of transactions that wait for the leader of a partition."""
        return len(self._waiting)

    def send(self, marking: Marking) -> None:
        """Queue the markers of a transaction. Return at once, before any callback."""
        if not self._new:
            asyncio.get_running_loop().call_soon(self._queue_new)
        self._new.append(_Markers(marking, tuple(sorted(marking.partitions))))

    async def close(self) -> None:
        """Cancel all requests and send no more."""
        self._closed = True
        if self._retry_handle is not None:
            self._retry_handle.cancel()
        tasks = [task for of_broker in self._tasks.values() for task in of_broker]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Queues

    def _queue_new(self) -> None:
        new, self._new = self._new, []
        self._queue_all(new)

    def _retry_later(self, markers: _Markers) -> None:
        if markers.marking.is_cancelled or self._closed:
            return
        self._waiting.append(markers)
        if self._retry_handle is None:
            self._retry_handle = self._timer.schedule(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._retry_handle = None
        waiting, self._waiting = self._waiting, []
        self._queue_all(waiting)

    def _queue_all(self, batch: Iterable[_Markers]) -> None:
        for marking, partitions in batch:
            if not marking.is_cancelled and not self._closed:
                self._queue(marking, partitions)
        for broker, queue in self._queues.items():
            if queue:
                self._start(broker)

    def _queue(self, marking: Marking, partitions: Iterable[TopicPartition]) -> None:
        image = self._image()
        by_leader: defaultdict[BrokerId | None, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            by_leader[_leader_of(image, partition)].append(partition)
        deleted = by_leader.pop(None, None)
        for leader, of_leader in by_leader.items():
            markers = _Markers(marking, tuple(of_leader))
            if leader == NO_LEADER:
                self._retry_later(markers)
            elif leader is not None:
                self._queues.setdefault(leader, deque()).append(markers)
        if deleted:
            logger.info("%s needs no markers for deleted partitions %s", marking.transactional_id, deleted)
            self._on_written(marking, deleted)

    def _start(self, broker: BrokerId) -> None:
        """Start another request if one more may be in flight. It takes the markers that are queued then."""
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
                    # Other brokers may lead these partitions now: the rest of the queue is retried, too.
                    batch += queue
                    queue.clear()
                    logger.info("Cannot write markers of %d transactions; retrying: %s", len(batch), error)
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
        for marking, partitions in batch:
            codes = error_codes.get(marking.producer_id, {})
            written = [each for each in partitions if codes.get(each) in _WRITTEN]
            if len(written) < len(partitions):
                failed = {each: codes.get(each) for each in partitions if codes.get(each) not in _WRITTEN}
                missing.append(_Markers(marking, tuple(failed)))
                errors.update(failed.values())
            if written and not marking.is_cancelled:
                self._on_written(marking, written)
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
        if not markers.marking.is_cancelled:
            batch.append(markers)
            size += len(markers.partitions)
    return batch


def _log_missing(missing: list[_Markers], errors: Iterable[int | None]) -> None:
    """Log one line for all transactions: it is repeated with every attempt, which may be for hours."""
    marking, partitions = missing[0]
    logger.info(
        "Markers of %d transactions are missing (errors %s); retrying; one is of %r in %s",
        len(missing), errors, marking.transactional_id, partitions[0],
    )  # fmt: skip


def _message(marking: Marking, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(index)
    return WritableTxnMarker(
        producer_id=marking.producer_id,
        producer_epoch=marking.producer_epoch,
        transaction_result=marking.is_commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in topics.items()
        ),
        coordinator_epoch=marking.coordinator_epoch,
        transaction_version=marking.transaction_version,
    )


def _error_codes(response: WriteTxnMarkersResponse) -> dict[ProducerId, dict[TopicPartition, int]]:
    codes: defaultdict[ProducerId, dict[TopicPartition, int]] = defaultdict(dict)
    for marker in response.markers:
        for topic in marker.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                codes[marker.producer_id][partition] = result.error_code
    return codes
