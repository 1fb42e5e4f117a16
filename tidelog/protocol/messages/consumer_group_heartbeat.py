"""The request and the response of the ConsumerGroupHeartbeat API (key 68).

Source: ConsumerGroupHeartbeatRequest.json and ConsumerGroupHeartbeatResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
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
class RequestTopicPartitions(Struct):
    """One entry of `topic_partitions` of `ConsumerGroupHeartbeatRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ConsumerGroupHeartbeatRequest(ApiMessage):
    """The request of the `ConsumerGroupHeartbeat` API (key 68), versions 0-1."""

    api_key: ClassVar[int] = 68
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rebalance_timeout_ms: Annotated[int, Int32("0+")] = -1
    subscribed_topic_names: Annotated[tuple[str, ...] | None, Array(String, "0+", nullable="0+")] = None
    subscribed_topic_regex: Annotated[str | None, String("1+", nullable="1+")] = None
    server_assignor: Annotated[str | None, String("0+", nullable="0+")] = None
    topic_partitions: Annotated[
        tuple[RequestTopicPartitions, ...] | None, Array(RequestTopicPartitions, "0+", nullable="0+")
    ] = None


@message
class ResponseTopicPartitions(Struct):
    """One entry of `topic_partitions` of `ConsumerGroupHeartbeatResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class Assignment(Struct):
    """The struct `assignment` of `ConsumerGroupHeartbeatResponse`."""

    topic_partitions: Annotated[
        tuple[ResponseTopicPartitions, ...], Array(ResponseTopicPartitions, "0+")
    ] = ()


@message
class ConsumerGroupHeartbeatResponse(ApiMessage):
    """The response of the `ConsumerGroupHeartbeat` API (key 68), versions 0-1."""

    api_key: ClassVar[int] = 68
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_epoch: Annotated[int, Int32("0+")] = 0
    heartbeat_interval_ms: Annotated[int, Int32("0+")] = 0
    assignment: Annotated[Assignment | None, Nested(Assignment, "0+", nullable="0+")] = None
