"""The request and the response of the FetchSnapshot API (key 59).

Source: FetchSnapshotRequest.json and FetchSnapshotResponse.json, Apache Kafka 4.3.
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
    Nested,
    Records,
    String,
    Struct,
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class RequestSnapshotId(Struct):
    """The struct `snapshot_id` of `FetchSnapshotRequest`."""

    end_offset: Annotated[int, Int64("0+")] = 0
    epoch: Annotated[int, Int32("0+")] = 0


@message
class RequestPartitionSnapshot(Struct):
    """One entry of `partitions` of `FetchSnapshotRequest`."""

    partition: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("0+")] = 0
    snapshot_id: Annotated[RequestSnapshotId, Nested(RequestSnapshotId, "0+")] = RequestSnapshotId()
    position: Annotated[int, Int64("0+")] = 0
    replica_directory_id: Annotated[UUID, Uuid("1+", tag=0, tagged="1+", ignorable=True)] = ZERO_UUID


@message
class RequestTopicSnapshot(Struct):
    """One entry of `topics` of `FetchSnapshotRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[RequestPartitionSnapshot, ...], Array(RequestPartitionSnapshot, "0+")] = ()


@message
class FetchSnapshotRequest(ApiMessage):
    """The request of the `FetchSnapshot` API (key 59), versions 0-1."""

    api_key: ClassVar[int] = 59
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    cluster_id: Annotated[str | None, String("0+", nullable="0+", tag=0, tagged="0+")] = None
    replica_id: Annotated[int, Int32("0+")] = -1
    max_bytes: Annotated[int, Int32("0+")] = 2147483647
    topics: Annotated[tuple[RequestTopicSnapshot, ...], Array(RequestTopicSnapshot, "0+")] = ()


@message
class ResponseSnapshotId(Struct):
    """The struct `snapshot_id` of `FetchSnapshotResponse`."""

    end_offset: Annotated[int, Int64("0+")] = 0
    epoch: Annotated[int, Int32("0+")] = 0


@message
class LeaderIdAndEpoch(Struct):
    """The struct `current_leader` of `FetchSnapshotResponse`."""

    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


@message
class ResponsePartitionSnapshot(Struct):
    """One entry of `partitions` of `FetchSnapshotResponse`."""

    index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    snapshot_id: Annotated[ResponseSnapshotId, Nested(ResponseSnapshotId, "0+")] = ResponseSnapshotId()
    current_leader: Annotated[LeaderIdAndEpoch, Nested(LeaderIdAndEpoch, "0+", tag=0, tagged="0+")] = (
        LeaderIdAndEpoch()
    )
    size: Annotated[int, Int64("0+")] = 0
    position: Annotated[int, Int64("0+")] = 0
    unaligned_records: Annotated[bytes | memoryview, Records("0+")] = b""


@message
class ResponseTopicSnapshot(Struct):
    """One entry of `topics` of `FetchSnapshotResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[ResponsePartitionSnapshot, ...], Array(ResponsePartitionSnapshot, "0+")] = ()


@message
class NodeEndpoint(Struct):
    """One entry of `node_endpoints` of `FetchSnapshotResponse`."""

    node_id: Annotated[int, Int32("1+")] = 0
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0


@message
class FetchSnapshotResponse(ApiMessage):
    """The response of the `FetchSnapshot` API (key 59), versions 0-1."""

    api_key: ClassVar[int] = 59
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    topics: Annotated[tuple[ResponseTopicSnapshot, ...], Array(ResponseTopicSnapshot, "0+")] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Array(NodeEndpoint, "1+", tag=0, tagged="1+")] = ()
