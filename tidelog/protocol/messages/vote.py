"""The request and the response of the Vote API (key 52).

Source: VoteRequest.json and VoteResponse.json, Apache Kafka 4.3.
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
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class RequestPartitionData(Struct):
    """One entry of `partitions` of `VoteRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    replica_epoch: Annotated[int, Int32("0+")] = 0
    replica_id: Annotated[int, Int32("0+")] = 0
    replica_directory_id: Annotated[UUID, Uuid("1+", ignorable=True)] = ZERO_UUID
    voter_directory_id: Annotated[UUID, Uuid("1+", ignorable=True)] = ZERO_UUID
    last_offset_epoch: Annotated[int, Int32("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    pre_vote: Annotated[bool, Bool("2+")] = False


@message
class RequestTopicData(Struct):
    """One entry of `topics` of `VoteRequest`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[RequestPartitionData, ...], Array(RequestPartitionData, "0+")] = ()


@message
class VoteRequest(ApiMessage):
    """The request of the `Vote` API (key 52), versions 0-2."""

    api_key: ClassVar[int] = 52
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = None
    voter_id: Annotated[int, Int32("1+", ignorable=True)] = -1
    topics: Annotated[tuple[RequestTopicData, ...], Array(RequestTopicData, "0+")] = ()


@message
class ResponsePartitionData(Struct):
    """One entry of `partitions` of `VoteResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    vote_granted: Annotated[bool, Bool("0+")] = False


@message
class ResponseTopicData(Struct):
    """One entry of `topics` of `VoteResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[ResponsePartitionData, ...], Array(ResponsePartitionData, "0+")] = ()


@message
class NodeEndpoint(Struct):
    """One entry of `node_endpoints` of `VoteResponse`."""

    node_id: Annotated[int, Int32("1+")] = 0
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0


@message
class VoteResponse(ApiMessage):
    """The response of the `Vote` API (key 52), versions 0-2."""

    api_key: ClassVar[int] = 52
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    error_code: Annotated[int, Int16("0+")] = 0
    topics: Annotated[tuple[ResponseTopicData, ...], Array(ResponseTopicData, "0+")] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Array(NodeEndpoint, "1+", tag=0, tagged="1+")] = ()
