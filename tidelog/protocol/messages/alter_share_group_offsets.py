"""The request and the response of the AlterShareGroupOffsets API (key 91).

Source: AlterShareGroupOffsetsRequest.json and AlterShareGroupOffsetsResponse.json, Apache Kafka 4.3.
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
class AlterShareGroupOffsetsRequestPartition(Struct):
    """One entry of `partitions` of `AlterShareGroupOffsetsRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0


@message
class AlterShareGroupOffsetsRequestTopic(Struct):
    """One entry of `topics` of `AlterShareGroupOffsetsRequest`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[AlterShareGroupOffsetsRequestPartition, ...],
        Array(AlterShareGroupOffsetsRequestPartition, "0+"),
    ] = ()


@message
class AlterShareGroupOffsetsRequest(ApiMessage):
    """The request of the `AlterShareGroupOffsets` API (key 91), version 0."""

    api_key: ClassVar[int] = 91
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[
        tuple[AlterShareGroupOffsetsRequestTopic, ...], Array(AlterShareGroupOffsetsRequestTopic, "0+")
    ] = ()


@message
class AlterShareGroupOffsetsResponsePartition(Struct):
    """One entry of `partitions` of `AlterShareGroupOffsetsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class AlterShareGroupOffsetsResponseTopic(Struct):
    """One entry of `responses` of `AlterShareGroupOffsetsResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[
        tuple[AlterShareGroupOffsetsResponsePartition, ...],
        Array(AlterShareGroupOffsetsResponsePartition, "0+"),
    ] = ()


@message
class AlterShareGroupOffsetsResponse(ApiMessage):
    """The response of the `AlterShareGroupOffsets` API (key 91), version 0."""

    api_key: ClassVar[int] = 91
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    responses: Annotated[
        tuple[AlterShareGroupOffsetsResponseTopic, ...], Array(AlterShareGroupOffsetsResponseTopic, "0+")
    ] = ()
