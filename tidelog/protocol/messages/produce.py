"""The request and the response of the Produce API (key 0).

Source: ProduceRequest.json and ProduceResponse.json, Apache Kafka 4.3.
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
    Uuid,
    Versions,
    message,
    versions,
)


@message
class PartitionProduceData(Struct):
    """One entry of `partition_data` of `ProduceRequest`."""

    index: Annotated[int, Int32("0+")] = 0
    records: Annotated[bytes | memoryview | None, Records("0+", nullable="0+")] = None


@message
class TopicProduceData(Struct):
    """One entry of `topic_data` of `ProduceRequest`."""

    name: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("13+", ignorable=True)] = ZERO_UUID
    partition_data: Annotated[tuple[PartitionProduceData, ...], Array(PartitionProduceData, "0+")] = ()


@message
class ProduceRequest(ApiMessage):
    """The request of the `Produce` API (key 0), versions 3-13."""

    api_key: ClassVar[int] = 0
    valid_versions: ClassVar[Versions] = versions("3-13")
    flexible_versions: ClassVar[Versions] = versions("9+")

    transactional_id: Annotated[str | None, String("3+", nullable="3+")] = None
    acks: Annotated[int, Int16("0+")] = 0
    timeout_ms: Annotated[int, Int32("0+")] = 0
    topic_data: Annotated[tuple[TopicProduceData, ...], Array(TopicProduceData, "0+")] = ()


@message
class BatchIndexAndErrorMessage(Struct):
    """One entry of `record_errors` of `ProduceResponse`."""

    batch_index: Annotated[int, Int32("8+")] = 0
    batch_index_error_message: Annotated[str | None, String("8+", nullable="8+")] = None


@message
class LeaderIdAndEpoch(Struct):
    """The struct `current_leader` of `ProduceResponse`."""

    leader_id: Annotated[int, Int32("10+")] = -1
    leader_epoch: Annotated[int, Int32("10+")] = -1


@message
class PartitionProduceResponse(Struct):
    """One entry of `partition_responses` of `ProduceResponse`."""

    index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    base_offset: Annotated[int, Int64("0+")] = 0
    log_append_time_ms: Annotated[int, Int64("2+", ignorable=True)] = -1
    log_start_offset: Annotated[int, Int64("5+", ignorable=True)] = -1
    record_errors: Annotated[
        tuple[BatchIndexAndErrorMessage, ...], Array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    ] = ()
    error_message: Annotated[str | None, String("8+", nullable="8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Nested(LeaderIdAndEpoch, "10+", tag=0, tagged="10+")] = (
        LeaderIdAndEpoch()
    )


@message
class TopicProduceResponse(Struct):
    """One entry of `responses` of `ProduceResponse`."""

    name: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("13+", ignorable=True)] = ZERO_UUID
    partition_responses: Annotated[
        tuple[PartitionProduceResponse, ...], Array(PartitionProduceResponse, "0+")
    ] = ()


@message
class NodeEndpoint(Struct):
    """One entry of `node_endpoints` of `ProduceResponse`."""

    node_id: Annotated[int, Int32("10+")] = 0
    host: Annotated[str, String("10+")] = ""
    port: Annotated[int, Int32("10+")] = 0
    rack: Annotated[str | None, String("10+", nullable="10+")] = None


@message
class ProduceResponse(ApiMessage):
    """The response of the `Produce` API (key 0), versions 3-13."""

    api_key: ClassVar[int] = 0
    valid_versions: ClassVar[Versions] = versions("3-13")
    flexible_versions: ClassVar[Versions] = versions("9+")

    responses: Annotated[tuple[TopicProduceResponse, ...], Array(TopicProduceResponse, "0+")] = ()
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Array(NodeEndpoint, "10+", tag=0, tagged="10+")] = ()
