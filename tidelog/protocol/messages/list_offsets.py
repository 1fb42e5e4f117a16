"""The request and the response of the ListOffsets API (key 2).

Source: ListOffsetsRequest.json and ListOffsetsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class ListOffsetsPartition(Struct):
    """One entry of `partitions` of `ListOffsetsRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("4+", ignorable=True)] = -1
    timestamp: Annotated[int, Int64("0+")] = 0


@message
class ListOffsetsTopic(Struct):
    """One entry of `topics` of `ListOffsetsRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[ListOffsetsPartition, ...], Array(ListOffsetsPartition, "0+")] = ()


@message
class ListOffsetsRequest(ApiMessage):
    """The request of the `ListOffsets` API (key 2), versions 1-11."""

    api_key: ClassVar[int] = 2
    valid_versions: ClassVar[Versions] = versions("1-11")
    flexible_versions: ClassVar[Versions] = versions("6+")

    replica_id: Annotated[int, Int32("0+")] = 0
    isolation_level: Annotated[int, Int8("2+")] = 0
    topics: Annotated[tuple[ListOffsetsTopic, ...], Array(ListOffsetsTopic, "0+")] = ()
    timeout_ms: Annotated[int, Int32("10+", ignorable=True)] = 0


@message
class ListOffsetsPartitionResponse(Struct):
    """One entry of `partitions` of `ListOffsetsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    timestamp: Annotated[int, Int64("1+")] = -1
    offset: Annotated[int, Int64("1+")] = -1
    leader_epoch: Annotated[int, Int32("4+")] = -1


@message
class ListOffsetsTopicResponse(Struct):
    """One entry of `topics` of `ListOffsetsResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[ListOffsetsPartitionResponse, ...], Array(ListOffsetsPartitionResponse, "0+")
    ] = ()


@message
class ListOffsetsResponse(ApiMessage):
    """The response of the `ListOffsets` API (key 2), versions 1-11."""

    api_key: ClassVar[int] = 2
    valid_versions: ClassVar[Versions] = versions("1-11")
    flexible_versions: ClassVar[Versions] = versions("6+")

    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    topics: Annotated[tuple[ListOffsetsTopicResponse, ...], Array(ListOffsetsTopicResponse, "0+")] = ()
