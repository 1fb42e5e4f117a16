"""The request and the response of the OffsetDelete API (key 47).

Source: OffsetDeleteRequest.json and OffsetDeleteResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class OffsetDeleteRequestPartition(Struct):
    """One entry of `partitions` of `OffsetDeleteRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0


@message
class OffsetDeleteRequestTopic(Struct):
    """One entry of `topics` of `OffsetDeleteRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[OffsetDeleteRequestPartition, ...], Array(OffsetDeleteRequestPartition, "0+")
    ] = ()


@message
class OffsetDeleteRequest(ApiMessage):
    """The request of the `OffsetDelete` API (key 47), version 0."""

    api_key: ClassVar[int] = 47
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[OffsetDeleteRequestTopic, ...], Array(OffsetDeleteRequestTopic, "0+")] = ()


@message
class OffsetDeleteResponsePartition(Struct):
    """One entry of `partitions` of `OffsetDeleteResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0


@message
class OffsetDeleteResponseTopic(Struct):
    """One entry of `topics` of `OffsetDeleteResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[OffsetDeleteResponsePartition, ...], Array(OffsetDeleteResponsePartition, "0+")
    ] = ()


@message
class OffsetDeleteResponse(ApiMessage):
    """The response of the `OffsetDelete` API (key 47), version 0."""

    api_key: ClassVar[int] = 47
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    error_code: Annotated[int, Int16("0+")] = 0
    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    topics: Annotated[tuple[OffsetDeleteResponseTopic, ...], Array(OffsetDeleteResponseTopic, "0+")] = ()
