"""DeleteRecords (key 21): delete all records before an offset (versions 0-2).

The log start offset moves at once, and readers see it. The response waits until the live followers have
moved theirs, at most for the request's timeout. Segments that are entirely below it are deleted in the next
retention run. Source: KIP-107.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.delayed_delete_records import (
    NO_OFFSET,
    DelayedDeleteRecords,
    Deleted,
    check_all,
)
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.topic_names import is_internal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tidelog.protocol.steps import Steps


class DeleteRecordsHandler:
    """Moves the log start offsets of partitions of this leader; rejects internal topics, as Kafka does."""

    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory, slices: Slices) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._slices = slices

    def handle(
        self, context: RequestContext, request: DeleteRecordsRequest
    ) -> Steps[DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]]:
        """Return the new low watermark of every partition, at once if all replicas have moved already."""
        # The last offset of a repeated partition counts, as in Kafka.
        offsets: dict[TopicPartition, int] = {}
        for topic in request.topics:
            for requested in topic.partitions:
                offsets[TopicPartition(topic.name, requested.partition_index)] = requested.offset
                yield None
        outcomes: dict[TopicPartition, Deleted | ErrorCode] = {}
        for name, offset in offsets.items():
            outcomes[name] = self._delete(name, offset)
            yield None
        deleted = [outcome for outcome in outcomes.values() if isinstance(outcome, Deleted)]
        if check_all(deleted):
            return (yield from _response(outcomes))
        return self._wait(request, outcomes, deleted)

    def _wait(
        self,
        request: DeleteRecordsRequest,
        outcomes: Mapping[TopicPartition, Deleted | ErrorCode],
        deleted: list[Deleted],
    ) -> asyncio.Future[DeleteRecordsResponse]:
        result: asyncio.Future[DeleteRecordsResponse] = asyncio.get_running_loop().create_future()

        def respond(response: DeleteRecordsResponse) -> None:
            if not result.done():
                result.set_result(response)

        def on_completed() -> None:
            self._slices.start(_response(outcomes), respond, result.set_exception)

        operation = DelayedDeleteRecords(max(request.timeout_ms, 0), deleted, on_completed)
        keys = [one.partition.topic_partition for one in deleted]
        if not self._purgatory.try_complete_else_watch(operation, keys):
            # If the client disconnects before, the operation is removed.
            result.add_done_callback(lambda _: operation.cancel())
        return result

    def _delete(self, topic_partition: TopicPartition, offset: int) -> Deleted | ErrorCode:
        try:
            if is_internal(topic_partition.topic):
                text = f"{topic_partition.topic} is an internal topic"
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
            partition = self._replicas.partition(topic_partition)
            return Deleted(partition, partition.delete_records_before(offset))
        except KafkaError as error:
            return error.code


def _response(outcomes: Mapping[TopicPartition, Deleted | ErrorCode]) -> Steps[DeleteRecordsResponse]:
    topics: defaultdict[str, list[DeleteRecordsPartitionResult]] = defaultdict(list)
    for (topic, index), outcome in outcomes.items():
        if isinstance(outcome, Deleted):
            low_watermark, code = outcome.low_watermark, outcome.error_code
        else:
            low_watermark, code = NO_OFFSET, outcome
        topics[topic].append(
            DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code)
        )
        yield None
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(name=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        )
    )
