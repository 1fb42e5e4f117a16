"""The request and the response of the OffsetCommit API (key 8).

Source: OffsetCommitRequest.json and OffsetCommitResponse.json, Apache Kafka 4.3.
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
class OffsetCommitRequestPartition(Struct):
    """One entry of `partitions` of `OffsetCommitRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    committed_offset: Annotated[int, Int64("0+")] = 0
    committed_leader_epoch: Annotated[int, Int32("6+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class OffsetCommitRequestTopic(Struct):
    """One entry of `topics` of `OffsetCommitRequest`."""

    name: Annotated[str, String("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[
        tuple[OffsetCommitRequestPartition, ...], Array(OffsetCommitRequestPartition, "0+")
    ] = ()


@message
class OffsetCommitRequest(ApiMessage):
    """The request of the `OffsetCommit` API (key 8), versions 2-10."""

    api_key: ClassVar[int] = 8
    valid_versions: ClassVar[Versions] = versions("2-10")
    flexible_versions: ClassVar[Versions] = versions("8+")

    group_id: Annotated[str, String("0+")] = ""
    generation_id_or_member_epoch: Annotated[int, Int32("1+", ignorable=True)] = -1
    member_id: Annotated[str, String("1+", ignorable=True)] = ""
    group_instance_id: Annotated[str | None, String("7+", nullable="7+")] = None
    retention_time_ms: Annotated[int, Int64("2-4", ignorable=True)] = -1
    topics: Annotated[tuple[OffsetCommitRequestTopic, ...], Array(OffsetCommitRequestTopic, "0+")] = ()


@message
class OffsetCommitResponsePartition(Struct):
    """One entry of `partitions` of `OffsetCommitResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0


@message
class OffsetCommitResponseTopic(Struct):
    """One entry of `topics` of `OffsetCommitResponse`."""

    name: Annotated[str, String("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[
        tuple[OffsetCommitResponsePartition, ...], Array(OffsetCommitResponsePartition, "0+")
    ] = ()


@message
class OffsetCommitResponse(ApiMessage):
    """The response of the `OffsetCommit` API (key 8), versions 2-10."""

    api_key: ClassVar[int] = 8
    valid_versions: ClassVar[Versions] = versions("2-10")
    flexible_versions: ClassVar[Versions] = versions("8+")

    throttle_time_ms: Annotated[int, Int32("3+", ignorable=True)] = 0
    topics: Annotated[tuple[OffsetCommitResponseTopic, ...], Array(OffsetCommitResponseTopic, "0+")] = ()
