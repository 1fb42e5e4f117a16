"""Tells the leaders of partitions how transactions ended, until every one has written its marker.

Up to `REQUESTS_IN_FLIGHT` requests are in flight to a broker, because each is acknowledged only when all of
its markers are replicated. When there are that many, the next one takes all markers that are queued by then.
A partition whose leader does not respond, refuses or is not known is tried again at the leader of that time;
one that is not in the metadata any more needs no marker.

| response for a partition | what follows |
|---|---|
| NONE | it is marked |
| INVALID_PRODUCER_EPOCH | it is marked: a later epoch is given only when a transaction has ended |
| UNSUPPORTED_FOR_MESSAGE_FORMAT | it is marked: it has no records of the transaction |
| any other, or none | again after `RETRY_MS` |

Bounds: a request has at most `PARTITIONS_PER_REQUEST` partitions, or those of one transaction if these are
more. What waits is what transactions that end have, of this node's coordinators.
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

_MARKED: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
)

MarkedCallback = Callable[[Marking, Iterable[TopicPartition]], None]


class _Markers(NamedTuple):
    """Partitions that all need the same marker."""

    marking: Marking
    partitions: tuple[TopicPartition, ...]


class MarkerSender:
    """`on_marked` is told of partitions that have their marker, or need none. `close` at the end."""

    def __init__(
        self,
        brokers: BrokerChannel,
        image: Callable[[], MetadataImage],
        timer: Timer,
        on_marked: MarkedCallback,
    ) -> None:
        self._brokers = brokers
        self._image = image
        self._timer = timer
        self._on_marked = on_marked
        self._queues: dict[BrokerId, deque[_Markers]] = {}
        self._tasks: dict[BrokerId, set[asyncio.Task[None]]] = {}
        self._new: list[_Markers] = []
        self._unplaced: list[_Markers] = []
        """What has no leader, or has failed, and waits to be placed again."""
        self._placing: TimerHandle | None = None
        self._closed = False

    @property
    def unplaced(self) -> int:
        """How many transactions wait for a leader of one of their partitions."""
        return len(self._unplaced)

    def send(self, marking: Marking) -> None:
        """Have the markers of a transaction written. Returns at once, and calls nobody back before that."""
        if not self._new:
            asyncio.get_running_loop().call_soon(self._place_new)
        self._new.append(_Markers(marking, tuple(sorted(marking.partitions))))

    async def close(self) -> None:
        """Send no more."""
        self._closed = True
        if self._placing is not None:
            self._placing.cancel()
        tasks = [task for of_broker in self._tasks.values() for task in of_broker]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Where markers go

    def _place_new(self) -> None:
        new, self._new = self._new, []
        self._place_all(new)

    def _place_later(self, markers: _Markers) -> None:
        if markers.marking.is_cancelled or self._closed:
            return
        self._unplaced.append(markers)
        if self._placing is None:
            self._placing = self._timer.schedule(RETRY_MS, self._place_again)

    def _place_again(self) -> None:
        self._placing = None
        unplaced, self._unplaced = self._unplaced, []
        self._place_all(unplaced)

    def _place_all(self, unplaced: Iterable[_Markers]) -> None:
        for marking, partitions in unplaced:
            if not marking.is_cancelled and not self._closed:
                self._place(marking, partitions)
        for broker, queue in self._queues.items():
            if queue:
                self._begin(broker)

    def _place(self, marking: Marking, partitions: Iterable[TopicPartition]) -> None:
        image = self._image()
        by_leader: defaultdict[BrokerId | None, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            by_leader[_leader_of(image, partition)].append(partition)
        gone = by_leader.pop(None, None)
        for leader, led in by_leader.items():
            markers = _Markers(marking, tuple(led))
            if leader == NO_LEADER:
                self._place_later(markers)
            elif leader is not None:
                self._queues.setdefault(leader, deque()).append(markers)
        if gone:
            logger.info("%s: no markers for %s, which are deleted", marking.transactional_id, gone)
            self._on_marked(marking, gone)

    def _begin(self, broker: BrokerId) -> None:
        """Have another request sent, if one more may be in flight; it takes what is queued when it begins."""
        tasks = self._tasks.setdefault(broker, set())
        if len(tasks) < REQUESTS_IN_FLIGHT:
            name = f"markers-to-{broker}"
            tasks.add(asyncio.get_running_loop().create_task(self._serve(broker, tasks), name=name))

    # Sending

    async def _serve(self, broker: BrokerId, tasks: set[asyncio.Task[None]]) -> None:
        """Send what is queued for one broker until there is nothing left."""
        queue = self._queues[broker]
        try:
            while batch := _take(queue):
                try:
                    await self._write(broker, batch)
                except KafkaError as error:
                    # Other brokers may lead these by now: they need not wait for one more timeout.
                    batch += queue
                    queue.clear()
                    logger.info("markers of %d transactions are not written: %s", len(batch), error)
                    self._again(batch)
                except Exception:
                    logger.exception("markers to broker %s", broker)
                    self._again(batch)
        finally:
            # Nothing comes between the last look at the queue and this.
            task = asyncio.current_task()
            assert task is not None
            tasks.remove(task)
            if not tasks:
                del self._tasks[broker], self._queues[broker]

    async def _write(self, broker: BrokerId, batch: list[_Markers]) -> None:
        """Errors: KafkaError when there is no answer."""
        request = WriteTxnMarkersRequest(markers=tuple(_message(*markers) for markers in batch))
        answers = _answers(await self._brokers.request(broker, request, WriteTxnMarkersResponse))
        unmarked: list[_Markers] = []
        errors: set[int | None] = set()
        for marking, partitions in batch:
            told = answers.get(marking.producer_id, {})
            marked = [each for each in partitions if told.get(each) in _MARKED]
            if len(marked) < len(partitions):
                left = {each: told.get(each) for each in partitions if told.get(each) not in _MARKED}
                unmarked.append(_Markers(marking, tuple(left)))
                errors.update(left.values())
            if marked and not marking.is_cancelled:
                self._on_marked(marking, marked)
        if unmarked:
            _log_unmarked(unmarked, errors)
            self._again(unmarked)

    def _again(self, batch: Iterable[_Markers]) -> None:
        for markers in batch:
            self._place_later(markers)


def _leader_of(image: MetadataImage, partition: TopicPartition) -> BrokerId | None:
    """Who leads a partition; NO_LEADER while nobody can be asked, None when there is no such partition."""
    topic = image.topics_by_name.get(partition.topic)
    placed = None if topic is None else topic.partitions.get(partition.partition)
    if placed is None:
        return None
    broker = image.brokers.get(placed.leader)
    return NO_LEADER if broker is None or broker.fenced else placed.leader


def _take(queue: deque[_Markers]) -> list[_Markers]:
    """The next markers that still have to be written, as many as go into a request."""
    batch: list[_Markers] = []
    size = 0
    while queue and (not batch or size + len(queue[0].partitions) <= PARTITIONS_PER_REQUEST):
        markers = queue.popleft()
        if not markers.marking.is_cancelled:
            batch.append(markers)
            size += len(markers.partitions)
    return batch


def _log_unmarked(unmarked: list[_Markers], errors: Iterable[int | None]) -> None:
    """One line for all: it is written again with every attempt, which may be for hours."""
    marking, partitions = unmarked[0]
    logger.info(
        "%d transactions have partitions without their marker (errors %s), one is %r with %s",
        len(unmarked), errors, marking.transactional_id, partitions[0],
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


def _answers(response: WriteTxnMarkersResponse) -> dict[ProducerId, dict[TopicPartition, int]]:
    answers: defaultdict[ProducerId, dict[TopicPartition, int]] = defaultdict(dict)
    for marker in response.markers:
        for topic in marker.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                answers[marker.producer_id][partition] = result.error_code
    return answers
