"""The request and the response of the DescribeTopicPartitions API (key 75).

Source: DescribeTopicPartitionsRequest.json and DescribeTopicPartitionsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Bool,
    Int16,
    Int32,
    Nested,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class TopicRequest(Struct):
    """One entry of `topics` of `DescribeTopicPartitionsRequest`."""

    name: Annotated[str, String("0+")] = ""


@message
class RequestCursor(Struct):
    """The struct `cursor` of `DescribeTopicPartitionsRequest`."""

    topic_name: Annotated[str, String("0+")] = ""
    partition_index: Annotated[int, Int32("0+")] = 0


@message
class DescribeTopicPartitionsRequest(ApiMessage):
    """The request of the `DescribeTopicPartitions` API (key 75), version 0."""

    api_key: ClassVar[int] = 75
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topics: Annotated[tuple[TopicRequest, ...], Array(TopicRequest, "0+")] = ()
    response_partition_limit: Annotated[int, Int32("0+")] = 2000
    cursor: Annotated[RequestCursor | None, Nested(RequestCursor, "0+", nullable="0+")] = None


@message
class DescribeTopicPartitionsResponsePartition(Struct):
    """One entry of `partitions` of `DescribeTopicPartitionsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    partition_index: Annotated[int, Int32("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+", ignorable=True)] = -1
    replica_nodes: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    isr_nodes: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    eligible_leader_replicas: Annotated[tuple[int, ...] | None, Array(Int32, "0+", nullable="0+")] = None
    last_known_elr: Annotated[tuple[int, ...] | None, Array(Int32, "0+", nullable="0+")] = None
    offline_replicas: Annotated[tuple[int, ...], Array(Int32, "0+", ignorable=True)] = ()


@message
class DescribeTopicPartitionsResponseTopic(Struct):
    """One entry of `topics` of `DescribeTopicPartitionsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    name: Annotated[str | None, String("0+", nullable="0+")] = ""
    topic_id: Annotated[UUID, Uuid("0+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, Bool("0+", ignorable=True)] = False
    partitions: Annotated[
        tuple[DescribeTopicPartitionsResponsePartition, ...],
        Array(DescribeTopicPartitionsResponsePartition, "0+"),
    ] = ()
    topic_authorized_operations: Annotated[int, Int32("0+")] = -2147483648


@message
class ResponseCursor(Struct):
    """The struct `next_cursor` of `DescribeTopicPartitionsResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    partition_index: Annotated[int, Int32("0+")] = 0


@message
class DescribeTopicPartitionsResponse(ApiMessage):
    """The response of the `DescribeTopicPartitions` API (key 75), version 0."""

    api_key: ClassVar[int] = 75
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    topics: Annotated[
        tuple[DescribeTopicPartitionsResponseTopic, ...], Array(DescribeTopicPartitionsResponseTopic, "0+")
    ] = ()
    next_cursor: Annotated[ResponseCursor | None, Nested(ResponseCursor, "0+", nullable="0+")] = None
