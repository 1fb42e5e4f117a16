"""WriteTxnMarkers (key 27), versions 1-2: end transactions in partitions that this node leads.

Sent by the transaction coordinators, and by administrators to abort a hanging transaction (KIP-664).
- 2: a marker has the transaction.version of its coordinator; from 2 on its epoch is higher than that of
  the records before it (KIP-1228)

Each partition gets its response when every in-sync replica has its marker, or after `request.timeout.ms`.
The effect of a marker in `__consumer_offsets` is visible by then. A marker that is sent again is appended
again and has no effect.

Source: KIP-98, KafkaApis.handleWriteTxnMarkersRequest of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import field
from typing import NamedTuple

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.consumer_offsets import append_marker
from tidelog.broker.coordinators.groups.transactions import EndOfTransaction, GroupTransactions
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.delayed_produce import DelayedProduce, PartitionAppend
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.waiting_requests import WaitingReaders
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, ProducerId, TopicPartition
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.protocol.steps import Steps, map_items, map_steps
from tidelog.protocol.views.produce_response_view import ProducePartitionResult

logger = logging.getLogger(__name__)

_Results = dict[ProducerId, dict[TopicPartition, ProducePartitionResult]]


@dataclass(slots=True)
class _Markers:
    """The results of the markers of one request so far; the response has each producer once."""

    results: _Results = field(default_factory=dict)
    appended: list[PartitionAppend] = field(default_factory=list)
    in_groups: list[tuple[int, EndOfTransaction, ProducePartitionResult]] = field(default_factory=list)
    latest: dict[TopicPartition, PartitionAppend] = field(default_factory=dict)
    """The last element of `appended` for each partition."""

    def append_result(self, partition: Partition, next_offset: Offset) -> ProducePartitionResult:
        """Return the result of a marker that ends at `next_offset`.

        The markers of a partition share one result: they are waited for together, as there may be very many.
        """
        append = self.latest.get(partition.topic_partition)
        if append is None or append.leader is not partition.leader:
            append = PartitionAppend(partition, partition.leader, next_offset, ProducePartitionResult())
            self.latest[partition.topic_partition] = append
            self.appended.append(append)
        append.required_offset = next_offset
        return append.result


class MarkerPurgatories(NamedTuple):
    """The requests that wait for replicas, and those that wait for records."""

    produce: Purgatory
    readers: Purgatory | WaitingReaders


class WriteTxnMarkersHandler:
    """Appends markers, and responds when they are replicated."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupTransactions,
        purgatories: MarkerPurgatories,
        clock: Clock,
        request_timeout_ms: int,
        slices: Slices,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._purgatories = purgatories
        self._clock = clock
        self._timeout_ms = request_timeout_ms
        self._slices = slices

    async def handle(
        self, context: RequestContext, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        """Append all markers in their order; errors are at their partitions."""
        markers = _Markers()
        await self._slices.complete(map_steps(lambda marker: self._write(marker, markers), request.markers))
        async with asyncio.TaskGroup() as waiting:
            waiting.create_task(self._wait_until_committed(markers.appended))
            await bounded_gather(self._end_in_groups(*end) for end in markers.in_groups)
        return await self._slices.complete(_response(markers.results))

    def _write(self, marker: WritableTxnMarker, markers: _Markers) -> Steps[None]:
        """Append one marker to its partitions; add those of `__consumer_offsets` to `markers.in_groups`."""
        end = EndOfTransaction(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        partitions: dict[TopicPartition, None] = {}
        for topic in marker.topics:
            for index in topic.partition_indexes:
                partitions[TopicPartition(topic.name, index)] = None
                yield None
        results = markers.results.setdefault(end.producer_id, {})
        for topic_partition in partitions:
            if topic_partition.topic == GROUP_METADATA_TOPIC:
                result = ProducePartitionResult()
                markers.in_groups.append((topic_partition.partition, end, result))
            else:
                result = self._append(topic_partition, end, markers)
            results[topic_partition] = result
            yield None

    def _append(
        self, topic_partition: TopicPartition, end: EndOfTransaction, markers: _Markers
    ) -> ProducePartitionResult:
        try:
            partition = self._replicas.partition(topic_partition)
            info = append_marker(partition, end, self._clock.wall_ms())
        except Exception as error:
            # An error of any kind affects this partition only: the markers of the others are appended.
            return ProducePartitionResult(error_code=_code(error, topic_partition))
        self._purgatories.readers.check_and_complete(topic_partition)
        return markers.append_result(partition, info.last_offset + 1)

    async def _wait_until_committed(self, appended: list[PartitionAppend]) -> None:
        """Return when the outcome of each append is known, or the timeout has passed."""
        completion: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_completed() -> None:
            if not completion.done():
                completion.set_result(None)

        def on_failed(error: Exception) -> None:
            for one in appended:
                one.result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            on_completed()

        operation = DelayedProduce(self._timeout_ms, appended, on_completed, on_failed)
        keys = [one.partition.topic_partition for one in appended]
        if keys:
            self._purgatories.produce.try_complete_else_watch(operation, keys)
            await completion

    async def _end_in_groups(
        self, partition: int, end: EndOfTransaction, result: ProducePartitionResult
    ) -> None:
        try:
            await self._groups.end(partition, end, self._timeout_ms)
        except Exception as error:
            result.error_code = _code(error, TopicPartition(GROUP_METADATA_TOPIC, partition))


def _code(error: Exception, topic_partition: TopicPartition) -> ErrorCode:
    """Log why a marker cannot be appended, and return the error code."""
    if isinstance(error, KafkaError):
        logger.info("Cannot append a transaction marker to %s: %s", topic_partition, error)
        return error.code
    logger.error("Cannot append a transaction marker to %s", topic_partition, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _response(results: _Results) -> Steps[WriteTxnMarkersResponse]:
    markers = []
    for producer_id, by_partition in results.items():
        topics = yield from _by_topic(by_partition)
        markers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=topics))
        yield None
    return WriteTxnMarkersResponse(markers=tuple(markers))


def _by_topic(
    results: dict[TopicPartition, ProducePartitionResult],
) -> Steps[tuple[WritableTxnMarkerTopicResult, ...]]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), result in results.items():
        partition_result = WritableTxnMarkerPartitionResult(
            partition_index=index, error_code=result.error_code
        )
        topics.setdefault(topic, []).append(partition_result)
        yield None
    return (
        yield from map_items(
            lambda topic: WritableTxnMarkerTopicResult(name=topic[0], partitions=tuple(topic[1])),
            topics.items(),
        )
    )
