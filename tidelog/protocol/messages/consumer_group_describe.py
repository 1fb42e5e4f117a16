"""The request and the response of the ConsumerGroupDescribe API (key 69).

Source: ConsumerGroupDescribeRequest.json and ConsumerGroupDescribeResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Bool,
    Int8,
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
class ConsumerGroupDescribeRequest(ApiMessage):
    """The request of the `ConsumerGroupDescribe` API (key 69), versions 0-1."""

    api_key: ClassVar[int] = 69
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_ids: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    include_authorized_operations: Annotated[bool, Bool("0+")] = False


@message
class TopicPartitions(Struct):
    """One entry of `topic_partitions` of `ConsumerGroupDescribeResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class Assignment(Struct):
    """The struct `assignment` of `ConsumerGroupDescribeResponse`."""

    topic_partitions: Annotated[tuple[TopicPartitions, ...], Array(TopicPartitions, "0+")] = ()


@message
class Member(Struct):
    """One entry of `members` of `ConsumerGroupDescribeResponse`."""

    member_id: Annotated[str, String("0+")] = ""
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_epoch: Annotated[int, Int32("0+")] = 0
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    subscribed_topic_names: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    subscribed_topic_regex: Annotated[str | None, String("0+", nullable="0+")] = None
    assignment: Annotated[Assignment, Nested(Assignment, "0+")] = Assignment()
    target_assignment: Annotated[Assignment, Nested(Assignment, "0+")] = Assignment()
    member_type: Annotated[int, Int8("1+", ignorable=True)] = -1


@message
class DescribedGroup(Struct):
    """One entry of `groups` of `ConsumerGroupDescribeResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    group_id: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("0+")] = ""
    group_epoch: Annotated[int, Int32("0+")] = 0
    assignment_epoch: Annotated[int, Int32("0+")] = 0
    assignor_name: Annotated[str, String("0+")] = ""
    members: Annotated[tuple[Member, ...], Array(Member, "0+")] = ()
    authorized_operations: Annotated[int, Int32("0+")] = -2147483648


@message
class ConsumerGroupDescribeResponse(ApiMessage):
    """The response of the `ConsumerGroupDescribe` API (key 69), versions 0-1."""

    api_key: ClassVar[int] = 69
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    groups: Annotated[tuple[DescribedGroup, ...], Array(DescribedGroup, "0+")] = ()
