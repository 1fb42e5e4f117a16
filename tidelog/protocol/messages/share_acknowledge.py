"""The request and the response of the ShareAcknowledge API (key 79).

Source: ShareAcknowledgeRequest.json and ShareAcknowledgeResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Nested,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class AcknowledgementBatch(Struct):
    """One entry of `acknowledgement_batches` of `ShareAcknowledgeRequest`."""

    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    acknowledge_types: Annotated[tuple[int, ...], Array(Int8, "0+")] = ()


@message
class AcknowledgePartition(Struct):
    """One entry of `partitions` of `ShareAcknowledgeRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    acknowledgement_batches: Annotated[
        tuple[AcknowledgementBatch, ...], Array(AcknowledgementBatch, "0+")
    ] = ()


@message
class AcknowledgeTopic(Struct):
    """One entry of `topics` of `ShareAcknowledgeRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[AcknowledgePartition, ...], Array(AcknowledgePartition, "0+")] = ()


@message
class ShareAcknowledgeRequest(ApiMessage):
    """The request of the `ShareAcknowledge` API (key 79), versions 1-2."""

    api_key: ClassVar[int] = 79
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    share_session_epoch: Annotated[int, Int32("0+")] = 0
    is_renew_ack: Annotated[bool, Bool("2+")] = False
    topics: Annotated[tuple[AcknowledgeTopic, ...], Array(AcknowledgeTopic, "0+")] = ()


@message
class LeaderIdAndEpoch(Struct):
    """The struct `current_leader` of `ShareAcknowledgeResponse`."""

    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


@message
class PartitionData(Struct):
    """One entry of `partitions` of `ShareAcknowledgeResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    current_leader: Annotated[LeaderIdAndEpoch, Nested(LeaderIdAndEpoch, "0+")] = LeaderIdAndEpoch()


@message
class ShareAcknowledgeTopicResponse(Struct):
    """One entry of `responses` of `ShareAcknowledgeResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class NodeEndpoint(Struct):
    """One entry of `node_endpoints` of `ShareAcknowledgeResponse`."""

    node_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class ShareAcknowledgeResponse(ApiMessage):
    """The response of the `ShareAcknowledge` API (key 79), versions 1-2."""

    api_key: ClassVar[int] = 79
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    acquisition_lock_timeout_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    responses: Annotated[
        tuple[ShareAcknowledgeTopicResponse, ...], Array(ShareAcknowledgeTopicResponse, "0+")
    ] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Array(NodeEndpoint, "0+")] = ()
