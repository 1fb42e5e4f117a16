"""The request and the response of the ShareGroupHeartbeat API (key 76).

Source: ShareGroupHeartbeatRequest.json and ShareGroupHeartbeatResponse.json, Apache Kafka 4.3.
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
class ShareGroupHeartbeatRequest(ApiMessage):
    """The request of the `ShareGroupHeartbeat` API (key 76), version 1."""

    api_key: ClassVar[int] = 76
    valid_versions: ClassVar[Versions] = versions("1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    subscribed_topic_names: Annotated[tuple[str, ...] | None, Array(String, "0+", nullable="0+")] = None


@message
class TopicPartitions(Struct):
    """One entry of `topic_partitions` of `ShareGroupHeartbeatResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class Assignment(Struct):
    """The struct `assignment` of `ShareGroupHeartbeatResponse`."""

    topic_partitions: Annotated[tuple[TopicPartitions, ...], Array(TopicPartitions, "0+")] = ()


@message
class ShareGroupHeartbeatResponse(ApiMessage):
    """The response of the `ShareGroupHeartbeat` API (key 76), version 1."""

    api_key: ClassVar[int] = 76
    valid_versions: ClassVar[Versions] = versions("1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_epoch: Annotated[int, Int32("0+")] = 0
    heartbeat_interval_ms: Annotated[int, Int32("0+")] = 0
    assignment: Annotated[Assignment | None, Nested(Assignment, "0+", nullable="0+")] = None
