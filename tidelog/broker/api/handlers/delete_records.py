"""DeleteRecords (key 21): forget everything before an offset, for good (versions 0-2).

The log start offset moves at once and readers see it; the answer waits until the followers that are
alive have moved theirs, at most the request's timeout. Segments that lie wholly below go with the next
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
    """Moves log start offsets of led partitions; internal topics are refused, as Kafka does."""

    def __init__(self, replicas: ReplicaManager, purgatory: Purgatory, slices: Slices) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._slices = slices

    def handle(
        self, context: RequestContext, request: DeleteRecordsRequest
    ) -> Steps[DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]]:
        """Answer the new low watermark of every partition, now if all replicas are there already."""
        # Of a partition that is named several times the last offset counts, as in Kafka.
        offsets: dict[TopicPartition, int] = {}
        for topic in request.topics:
            for asked in topic.partitions:
                offsets[TopicPartition(topic.name, asked.partition_index)] = asked.offset
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
        answer: asyncio.Future[DeleteRecordsResponse] = asyncio.get_running_loop().create_future()

        def respond(response: DeleteRecordsResponse) -> None:
            if not answer.done():
                answer.set_result(response)

        def on_answer() -> None:
            self._slices.start(_response(outcomes), respond, answer.set_exception)

        operation = DelayedDeleteRecords(max(request.timeout_ms, 0), deleted, on_answer)
        keys = [one.partition.topic_partition for one in deleted]
        if not self._purgatory.try_complete_else_watch(operation, keys):
            # The client may be gone before that: nothing is left of the operation then.
            answer.add_done_callback(lambda _: operation.cancel())
        return answer

    def _delete(self, topic_partition: TopicPartition, offset: int) -> Deleted | ErrorCode:
        try:
            if is_internal(topic_partition.topic):
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition.topic} is internal")
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
