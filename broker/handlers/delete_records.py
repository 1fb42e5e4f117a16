"""DeleteRecords (key 21): forget everything before an offset, for good (versions 0-2).

The log start offset moves at once and readers see it; segments that lie wholly below go with
the next retention run. Source: KIP-107.
"""

from __future__ import annotations

from broker.replica_manager import ReplicaManager
from broker.request_context import RequestContext
from cluster.topic_names import is_internal
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import TopicPartition
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_OFFSET = -1


class DeleteRecordsHandler:
    """Moves log start offsets of led partitions; internal topics are refused, as Kafka does."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(self, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        """Answer the new low watermark of every partition."""
        topics = tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(self._delete(topic.name, asked) for asked in topic.partitions),
            )
            for topic in request.topics
        )
        return DeleteRecordsResponse(topics=topics)

    def _delete(self, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        try:
            if is_internal(topic):
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
            partition = self._replicas.partition(TopicPartition(topic, asked.partition_index))
            low_watermark = partition.delete_records_before(asked.offset)
        except KafkaError as error:
            return DeleteRecordsPartitionResult(
                partition_index=asked.partition_index, low_watermark=NO_OFFSET, error_code=error.code
            )
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=low_watermark
        )
