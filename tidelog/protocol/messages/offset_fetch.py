"""The request and the response of the OffsetFetch API (key 9).

Source: OffsetFetchRequest.json and OffsetFetchResponse.json, Apache Kafka 4.3.
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
    Int64,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class OffsetFetchRequestTopic(Struct):
    """One entry of `topics` of `OffsetFetchRequest`."""

    name: Annotated[str, String("0-7")] = ""
    partition_indexes: Annotated[tuple[int, ...], Array(Int32, "0-7")] = ()


@message
class OffsetFetchRequestTopics(Struct):
    """One entry of `topics` of `OffsetFetchRequest`."""

    name: Annotated[str, String("8-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    partition_indexes: Annotated[tuple[int, ...], Array(Int32, "8+")] = ()


@message
class OffsetFetchRequestGroup(Struct):
    """One entry of `groups` of `OffsetFetchRequest`."""

    group_id: Annotated[str, String("8+")] = ""
    member_id: Annotated[str | None, String("9+", nullable="9+", ignorable=True)] = None
    member_epoch: Annotated[int, Int32("9+", ignorable=True)] = -1
    topics: Annotated[
        tuple[OffsetFetchRequestTopics, ...] | None, Array(OffsetFetchRequestTopics, "8+", nullable="8+")
    ] = ()


@message
class OffsetFetchRequest(ApiMessage):
    """The request of the `OffsetFetch` API (key 9), versions 1-10."""

    api_key: ClassVar[int] = 9
    valid_versions: ClassVar[Versions] = versions("1-10")
    flexible_versions: ClassVar[Versions] = versions("6+")

    group_id: Annotated[str, String("0-7")] = ""
    topics: Annotated[
        tuple[OffsetFetchRequestTopic, ...] | None, Array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    ] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], Array(OffsetFetchRequestGroup, "8+")] = ()
    require_stable: Annotated[bool, Bool("7+")] = False


@message
class OffsetFetchResponsePartition(Struct):
    """One entry of `partitions` of `OffsetFetchResponse`."""

    partition_index: Annotated[int, Int32("0-7")] = 0
    committed_offset: Annotated[int, Int64("0-7")] = 0
    committed_leader_epoch: Annotated[int, Int32("5-7", ignorable=True)] = -1
    metadata: Annotated[str | None, String("0-7", nullable="0-7")] = ""
    error_code: Annotated[int, Int16("0-7")] = 0


@message
class OffsetFetchResponseTopic(Struct):
    """One entry of `topics` of `OffsetFetchResponse`."""

    name: Annotated[str, String("0-7")] = ""
    partitions: Annotated[
        tuple[OffsetFetchResponsePartition, ...], Array(OffsetFetchResponsePartition, "0-7")
    ] = ()


@message
class OffsetFetchResponsePartitions(Struct):
    """One entry of `partitions` of `OffsetFetchResponse`."""

    partition_index: Annotated[int, Int32("8+")] = 0
    committed_offset: Annotated[int, Int64("8+")] = 0
    committed_leader_epoch: Annotated[int, Int32("8+", ignorable=True)] = -1
    metadata: Annotated[str | None, String("8+", nullable="8+")] = ""
    error_code: Annotated[int, Int16("8+")] = 0


@message
class OffsetFetchResponseTopics(Struct):
    """One entry of `topics` of `OffsetFetchResponse`."""

    name: Annotated[str, String("8-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[
        tuple[OffsetFetchResponsePartitions, ...], Array(OffsetFetchResponsePartitions, "8+")
    ] = ()


@message
class OffsetFetchResponseGroup(Struct):
    """One entry of `groups` of `OffsetFetchResponse`."""

    group_id: Annotated[str, String("8+")] = ""
    topics: Annotated[tuple[OffsetFetchResponseTopics, ...], Array(OffsetFetchResponseTopics, "8+")] = ()
    error_code: Annotated[int, Int16("8+")] = 0


@message
class OffsetFetchResponse(ApiMessage):
    """The response of the `OffsetFetch` API (key 9), versions 1-10."""

    api_key: ClassVar[int] = 9
    valid_versions: ClassVar[Versions] = versions("1-10")
    flexible_versions: ClassVar[Versions] = versions("6+")

    throttle_time_ms: Annotated[int, Int32("3+", ignorable=True)] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], Array(OffsetFetchResponseTopic, "0-7")] = ()
    error_code: Annotated[int, Int16("2-7", ignorable=True)] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], Array(OffsetFetchResponseGroup, "8+")] = ()
