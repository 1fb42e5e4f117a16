"""The request and the response of the EndQuorumEpoch API (key 54).

Source: EndQuorumEpochRequest.json and EndQuorumEpochResponse.json, Apache Kafka 4.3.
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
    String,
    Struct,
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class ReplicaInfo(Struct):
    """One entry of `preferred_candidates` of `EndQuorumEpochRequest`."""

    candidate_id: Annotated[int, Int32("1+")] = 0
    candidate_directory_id: Annotated[UUID, Uuid("1+")] = ZERO_UUID


@message
class RequestPartitionData(Struct):
    """One entry of `partitions` of `EndQuorumEpochRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    preferred_successors: Annotated[tuple[int, ...], Array(Int32, "0", ignorable=True)] = ()
    preferred_candidates: Annotated[tuple[ReplicaInfo, ...], Array(ReplicaInfo, "1+", ignorable=True)] = ()


@message
class RequestTopicData(Struct):
    """One entry of `topics` of `EndQuorumEpochRequest`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[RequestPartitionData, ...], Array(RequestPartitionData, "0+")] = ()


@message
class LeaderEndpoint(Struct):
    """One entry of `leader_endpoints` of `EndQuorumEpochRequest`."""

    name: Annotated[str, String("1+")] = ""
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0


@message
class EndQuorumEpochRequest(ApiMessage):
    """The request of the `EndQuorumEpoch` API (key 54), versions 0-1."""

    api_key: ClassVar[int] = 54
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = None
    topics: Annotated[tuple[RequestTopicData, ...], Array(RequestTopicData, "0+")] = ()
    leader_endpoints: Annotated[tuple[LeaderEndpoint, ...], Array(LeaderEndpoint, "1+", ignorable=True)] = ()


@message
class ResponsePartitionData(Struct):
    """One entry of `partitions` of `EndQuorumEpochResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


@message
class ResponseTopicData(Struct):
    """One entry of `topics` of `EndQuorumEpochResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[ResponsePartitionData, ...], Array(ResponsePartitionData, "0+")] = ()


@message
class NodeEndpoint(Struct):
    """One entry of `node_endpoints` of `EndQuorumEpochResponse`."""

    node_id: Annotated[int, Int32("1+")] = 0
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0


@message
class EndQuorumEpochResponse(ApiMessage):
    """The response of the `EndQuorumEpoch` API (key 54), versions 0-1."""

    api_key: ClassVar[int] = 54
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    error_code: Annotated[int, Int16("0+")] = 0
    topics: Annotated[tuple[ResponseTopicData, ...], Array(ResponseTopicData, "0+")] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Array(NodeEndpoint, "1+", tag=0, tagged="1+")] = ()
