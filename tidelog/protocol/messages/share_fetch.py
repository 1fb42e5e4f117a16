"""The request and the response of the ShareFetch API (key 78).

Source: ShareFetchRequest.json and ShareFetchResponse.json, Apache Kafka 4.3.
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
    Records,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class AcknowledgementBatch(Struct):
    """One entry of `acknowledgement_batches` of `ShareFetchRequest`."""

    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    acknowledge_types: Annotated[tuple[int, ...], Array(Int8, "0+")] = ()


@message
class FetchPartition(Struct):
    """One entry of `partitions` of `ShareFetchRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    partition_max_bytes: Annotated[int, Int32("0")] = 0
    acknowledgement_batches: Annotated[
        tuple[AcknowledgementBatch, ...], Array(AcknowledgementBatch, "0+")
    ] = ()


@message
class FetchTopic(Struct):
    """One entry of `topics` of `ShareFetchRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[FetchPartition, ...], Array(FetchPartition, "0+")] = ()


@message
class ForgottenTopic(Struct):
    """One entry of `forgotten_topics_data` of `ShareFetchRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ShareFetchRequest(ApiMessage):
    """The request of the `ShareFetch` API (key 78), versions 1-2."""

    api_key: ClassVar[int] = 78
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    share_session_epoch: Annotated[int, Int32("0+")] = 0
    max_wait_ms: Annotated[int, Int32("0+")] = 0
    min_bytes: Annotated[int, Int32("0+")] = 0
    max_bytes: Annotated[int, Int32("0+")] = 2147483647
    max_records: Annotated[int, Int32("1+")] = 0
    batch_size: Annotated[int, Int32("1+")] = 0
    share_acquire_mode: Annotated[int, Int8("2+", ignorable=True)] = 0
    is_renew_ack: Annotated[bool, Bool("2+")] = False
    topics: Annotated[tuple[FetchTopic, ...], Array(FetchTopic, "0+")] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], Array(ForgottenTopic, "0+")] = ()


@message
class LeaderIdAndEpoch(Struct):
    """The struct `current_leader` of `ShareFetchResponse`."""

    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


@message
class AcquiredRecords(Struct):
    """One entry of `acquired_records` of `ShareFetchResponse`."""

    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    delivery_count: Annotated[int, Int16("0+")] = 0


@message
class PartitionData(Struct):
    """One entry of `partitions` of `ShareFetchResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    acknowledge_error_code: Annotated[int, Int16("0+")] = 0
    acknowledge_error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    current_leader: Annotated[LeaderIdAndEpoch, Nested(LeaderIdAndEpoch, "0+")] = LeaderIdAndEpoch()
    records: Annotated[bytes | memoryview | None, Records("0+", nullable="0")] = None
    acquired_records: Annotated[tuple[AcquiredRecords, ...], Array(AcquiredRecords, "0+")] = ()


@message
class ShareFetchableTopicResponse(Struct):
    """One entry of `responses` of `ShareFetchResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class NodeEndpoint(Struct):
    """One entry of `node_endpoints` of `ShareFetchResponse`."""

    node_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class ShareFetchResponse(ApiMessage):
    """The response of the `ShareFetch` API (key 78), versions 1-2."""

    api_key: ClassVar[int] = 78
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    acquisition_lock_timeout_ms: Annotated[int, Int32("1+")] = 0
    responses: Annotated[
        tuple[ShareFetchableTopicResponse, ...], Array(ShareFetchableTopicResponse, "0+")
    ] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Array(NodeEndpoint, "0+")] = ()
