"""DescribeTopicPartitions (key 75), version 0: topics in pages of a limited number of partitions.

Topics are in order of name, starting at the cursor. The cursor of the response is the start of the next
page. No topics in the request means all.

Source: KIP-966; DescribeTopicPartitionsRequestHandler and KRaftMetadataCache of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidelog.broker.api.handlers.partition_places import leader_endpoint, offline_replicas
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from tidelog.cluster.topic_names import invalid_name_reason, is_internal
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from tidelog.protocol.steps import Steps, map_items, sorted_in_steps


class DescribeTopicPartitionsHandler:
    """Returns topics of the image; `partition_limit` is max.request.partition.size.limit."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        partition_limit: int,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._image = image
        self._partition_limit = partition_limit

    def handle(
        self, context: RequestContext, request: DescribeTopicPartitionsRequest
    ) -> Steps[DescribeTopicPartitionsResponse]:
        """Return one page of at least one partition. Raise INVALID_REQUEST for an invalid cursor."""
        image = self._image()
        first_topic, first_index = _start(request)
        names = {topic.name for topic in request.topics} or set(image.topics_by_name)
        if request.cursor is not None:
            if request.topics and first_topic not in names:
                text = f"the topic {first_topic!r} of the cursor is not requested"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            if first_index < 0:
                text = f"the partition {first_index} of the cursor, in {first_topic!r}, is negative"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        remaining = max(1, min(self._partition_limit, request.response_partition_limit))
        described: list[DescribeTopicPartitionsResponseTopic] = []
        denied: list[DescribeTopicPartitionsResponseTopic] = []
        for name in (yield from sorted_in_steps(name for name in names if name >= first_topic)):
            yield None
            if not self._may_describe(context, name, is_requested=bool(request.topics)):
                if request.topics:
                    denied.append(_denied_topic(name))
                continue
            if remaining == 0:
                return _response([*described, *denied], ResponseCursor(topic_name=name, partition_index=0))
            topic = image.topics_by_name.get(name)
            if topic is None:
                described.append(self._with_operations(context, _unknown_topic(name)))
                continue
            start = first_index if name == first_topic else 0
            end = min(len(topic.partitions), start + remaining)
            page = yield from _topic(image, context.listener, topic, start, end)
            described.append(self._with_operations(context, page))
            if end < len(topic.partitions):
                return _response([*described, *denied], ResponseCursor(topic_name=name, partition_index=end))
            remaining -= max(0, end - start)
        return _response([*described, *denied], None)

    def _may_describe(self, context: RequestContext, name: str, *, is_requested: bool) -> bool:
        return self._authorizer.is_authorized(
            context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name, logs_denial=is_requested
        )

    def _with_operations(
        self, context: RequestContext, topic: DescribeTopicPartitionsResponseTopic
    ) -> DescribeTopicPartitionsResponseTopic:
        assert topic.name is not None
        operations = self._authorizer.authorized_operations(context, AclResourceType.TOPIC, topic.name)
        return replace(topic, topic_authorized_operations=operations)


def _start(request: DescribeTopicPartitionsRequest) -> tuple[str, int]:
    """Return the topic and the partition at which the page starts."""
    cursor = request.cursor
    return ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)


def _response(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: ResponseCursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)


def _unknown_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_name = invalid_name_reason(name) is None
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=is_internal(name),
    )


def _denied_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _topic(
    image: MetadataImage, listener: str, topic: TopicImage, start: int, end: int
) -> Steps[DescribeTopicPartitionsResponseTopic]:
    partitions = yield from map_items(
        lambda index: _partition(image, listener, index, topic.partitions[index]), range(start, end)
    )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
    )


def _partition(
    image: MetadataImage, listener: str, index: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = leader_endpoint(image, partition, listener) is not None
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=offline_replicas(image, partition, listener),
    )
