"""The request and the response of the AssignReplicasToDirs API (key 73).

Source: AssignReplicasToDirsRequest.json and AssignReplicasToDirsResponse.json, Apache Kafka 4.3.
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
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class RequestPartitionData(Struct):
    """One entry of `partitions` of `AssignReplicasToDirsRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0


@message
class RequestTopicData(Struct):
    """One entry of `topics` of `AssignReplicasToDirsRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[RequestPartitionData, ...], Array(RequestPartitionData, "0+")] = ()


@message
class RequestDirectoryData(Struct):
    """One entry of `directories` of `AssignReplicasToDirsRequest`."""

    id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    topics: Annotated[tuple[RequestTopicData, ...], Array(RequestTopicData, "0+")] = ()


@message
class AssignReplicasToDirsRequest(ApiMessage):
    """The request of the `AssignReplicasToDirs` API (key 73), version 0."""

    api_key: ClassVar[int] = 73
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
    directories: Annotated[tuple[RequestDirectoryData, ...], Array(RequestDirectoryData, "0+")] = ()


@message
class ResponsePartitionData(Struct):
    """One entry of `partitions` of `AssignReplicasToDirsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0


@message
class ResponseTopicData(Struct):
    """One entry of `topics` of `AssignReplicasToDirsResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[ResponsePartitionData, ...], Array(ResponsePartitionData, "0+")] = ()


@message
class ResponseDirectoryData(Struct):
    """One entry of `directories` of `AssignReplicasToDirsResponse`."""

    id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    topics: Annotated[tuple[ResponseTopicData, ...], Array(ResponseTopicData, "0+")] = ()


@message
class AssignReplicasToDirsResponse(ApiMessage):
    """The response of the `AssignReplicasToDirs` API (key 73), version 0."""

    api_key: ClassVar[int] = 73
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    directories: Annotated[tuple[ResponseDirectoryData, ...], Array(ResponseDirectoryData, "0+")] = ()
