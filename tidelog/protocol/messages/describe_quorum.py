"""The request and the response of the DescribeQuorum API (key 55).

Source: DescribeQuorumRequest.json and DescribeQuorumResponse.json, Apache Kafka 4.3.
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
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class RequestPartitionData(Struct):
    """One entry of `partitions` of `DescribeQuorumRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0


@message
class RequestTopicData(Struct):
    """One entry of `topics` of `DescribeQuorumRequest`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[RequestPartitionData, ...], Array(RequestPartitionData, "0+")] = ()


@message
class DescribeQuorumRequest(ApiMessage):
    """The request of the `DescribeQuorum` API (key 55), versions 0-2."""

    api_key: ClassVar[int] = 55
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topics: Annotated[tuple[RequestTopicData, ...], Array(RequestTopicData, "0+")] = ()


@message
class ReplicaState(Struct):
    """One entry of `current_voters` of `DescribeQuorumResponse`."""

    replica_id: Annotated[int, Int32("0+")] = 0
    replica_directory_id: Annotated[UUID, Uuid("2+")] = ZERO_UUID
    log_end_offset: Annotated[int, Int64("0+")] = 0
    last_fetch_timestamp: Annotated[int, Int64("1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[int, Int64("1+", ignorable=True)] = -1


@message
class ResponsePartitionData(Struct):
    """One entry of `partitions` of `DescribeQuorumResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("2+", nullable="2+", ignorable=True)] = ""
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    high_watermark: Annotated[int, Int64("0+")] = 0
    current_voters: Annotated[tuple[ReplicaState, ...], Array(ReplicaState, "0+")] = ()
    observers: Annotated[tuple[ReplicaState, ...], Array(ReplicaState, "0+")] = ()


@message
class ResponseTopicData(Struct):
    """One entry of `topics` of `DescribeQuorumResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[ResponsePartitionData, ...], Array(ResponsePartitionData, "0+")] = ()


@message
class Listener(Struct):
    """One entry of `listeners` of `DescribeQuorumResponse`."""

    name: Annotated[str, String("2+")] = ""
    host: Annotated[str, String("2+")] = ""
    port: Annotated[int, UInt16("2+")] = 0


@message
class Node(Struct):
    """One entry of `nodes` of `DescribeQuorumResponse`."""

    node_id: Annotated[int, Int32("2+")] = 0
    listeners: Annotated[tuple[Listener, ...], Array(Listener, "2+")] = ()


@message
class DescribeQuorumResponse(ApiMessage):
    """The response of the `DescribeQuorum` API (key 55), versions 0-2."""

    api_key: ClassVar[int] = 55
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("2+", nullable="2+", ignorable=True)] = ""
    topics: Annotated[tuple[ResponseTopicData, ...], Array(ResponseTopicData, "0+")] = ()
    nodes: Annotated[tuple[Node, ...], Array(Node, "2+")] = ()
