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
from tidelog.broker.partitions.delayed_delete_records import NO_OFFSET, DelayedDeleteRecords, Deletion
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import require_access
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.topic_names import is_internal
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tidelog.protocol.steps import Steps, map_items


class DeleteRecordsHandler:
    """Moves the log start offsets of partitions of this leader; rejects internal topics, as Kafka does."""

    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        slices: Slices,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
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
        outcomes: dict[TopicPartition, Deletion | ErrorCode] = {}
        waiting: dict[TopicPartition, Deletion] = {}
        for name, offset in offsets.items():
            outcome = outcomes[name] = self._delete(context, name, offset)
            if isinstance(outcome, Deletion) and not outcome.check():
                waiting[name] = outcome
            yield None
        if not waiting:
            return (yield from _response(outcomes))
        return (yield from self._wait(request.timeout_ms, outcomes, waiting))

    def _wait(
        self,
        timeout_ms: int,
        outcomes: Mapping[TopicPartition, Deletion | ErrorCode],
        waiting: Mapping[TopicPartition, Deletion],
    ) -> Steps[asyncio.Future[DeleteRecordsResponse]]:
        """Return a future of the response, which is sent when the `waiting` deletions are complete.

        Partitions may change between the steps. They are therefore checked again after they are watched.
        """
        response: asyncio.Future[DeleteRecordsResponse] = asyncio.get_running_loop().create_future()

        def respond(complete: DeleteRecordsResponse) -> None:
            if not response.done():
                response.set_result(complete)

        def on_ready() -> None:
            self._slices.start(_response(outcomes), respond, response.set_exception)

        operation = DelayedDeleteRecords(max(timeout_ms, 0), waiting, on_ready)
        # If the client disconnects, the future is cancelled and nothing is left of the operation.
        response.add_done_callback(lambda _: operation.cancel())
        try:
            yield from self._purgatory.watch_in_steps(operation, waiting)
            for name in waiting:
                if operation.is_completed or operation.try_complete_at(name):
                    break
                yield None
        except BaseException:
            operation.cancel()
            raise
        return response

    def _delete(
        self, context: RequestContext, topic_partition: TopicPartition, offset: int
    ) -> Deletion | ErrorCode:
        """Delete the records of one partition before `offset`; return the deletion or its error code."""
        delete, topic_type = AclOperation.DELETE, AclResourceType.TOPIC
        try:
            require_access(self._authorizer, context, delete, topic_type, topic_partition.topic)
            if is_internal(topic_partition.topic):
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition.topic} is internal")
            partition = self._replicas.partition(topic_partition)
            return Deletion(partition, partition.delete_records_before(offset))
        except KafkaError as error:
            return error.code


def _response(outcomes: Mapping[TopicPartition, Deletion | ErrorCode]) -> Steps[DeleteRecordsResponse]:
    topics: defaultdict[str, list[DeleteRecordsPartitionResult]] = defaultdict(list)
    for (topic, index), outcome in outcomes.items():
        if isinstance(outcome, Deletion):
            low_watermark, code = outcome.low_watermark, outcome.error_code
        else:
            low_watermark, code = NO_OFFSET, outcome
        topics[topic].append(
            DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code)
        )
        yield None

    def result(topic: str) -> DeleteRecordsTopicResult:
        return DeleteRecordsTopicResult(name=topic, partitions=tuple(topics[topic]))

    return DeleteRecordsResponse(topics=(yield from map_items(result, topics)))
