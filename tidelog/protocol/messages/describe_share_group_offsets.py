"""The request and the response of the DescribeShareGroupOffsets API (key 90).

Source: DescribeShareGroupOffsetsRequest.json and DescribeShareGroupOffsetsResponse.json, Apache Kafka 4.3.
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
    Int64,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class DescribeShareGroupOffsetsRequestTopic(Struct):
    """One entry of `topics` of `DescribeShareGroupOffsetsRequest`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One entry of `groups` of `DescribeShareGroupOffsetsRequest`."""

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[
        tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None,
        Array(DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+"),
    ] = ()


@message
class DescribeShareGroupOffsetsRequest(ApiMessage):
    """The request of the `DescribeShareGroupOffsets` API (key 90), versions 0-1."""

    api_key: ClassVar[int] = 90
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    groups: Annotated[
        tuple[DescribeShareGroupOffsetsRequestGroup, ...], Array(DescribeShareGroupOffsetsRequestGroup, "0+")
    ] = ()


@message
class DescribeShareGroupOffsetsResponsePartition(Struct):
    """One entry of `partitions` of `DescribeShareGroupOffsetsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    lag: Annotated[int, Int64("1+", ignorable=True)] = -1
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class DescribeShareGroupOffsetsResponseTopic(Struct):
    """One entry of `topics` of `DescribeShareGroupOffsetsResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[
        tuple[DescribeShareGroupOffsetsResponsePartition, ...],
        Array(DescribeShareGroupOffsetsResponsePartition, "0+"),
    ] = ()


@message
class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One entry of `groups` of `DescribeShareGroupOffsetsResponse`."""

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[
        tuple[DescribeShareGroupOffsetsResponseTopic, ...],
        Array(DescribeShareGroupOffsetsResponseTopic, "0+"),
    ] = ()
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class DescribeShareGroupOffsetsResponse(ApiMessage):
    """The response of the `DescribeShareGroupOffsets` API (key 90), versions 0-1."""

    api_key: ClassVar[int] = 90
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    groups: Annotated[
        tuple[DescribeShareGroupOffsetsResponseGroup, ...],
        Array(DescribeShareGroupOffsetsResponseGroup, "0+"),
    ] = ()
