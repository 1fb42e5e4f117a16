"""The request and the response of the DescribeProducers API (key 61).

Source: DescribeProducersRequest.json and DescribeProducersResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class TopicRequest(Struct):
    """One entry of `topics` of `DescribeProducersRequest`."""

    name: Annotated[str, String("0+")] = ""
    partition_indexes: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class DescribeProducersRequest(ApiMessage):
    """The request of the `DescribeProducers` API (key 61), version 0."""

    api_key: ClassVar[int] = 61
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topics: Annotated[tuple[TopicRequest, ...], Array(TopicRequest, "0+")] = ()


@message
class ProducerState(Struct):
    """One entry of `active_producers` of `DescribeProducersResponse`."""

    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int32("0+")] = 0
    last_sequence: Annotated[int, Int32("0+")] = -1
    last_timestamp: Annotated[int, Int64("0+")] = -1
    coordinator_epoch: Annotated[int, Int32("0+")] = 0
    current_txn_start_offset: Annotated[int, Int64("0+")] = -1


@message
class PartitionResponse(Struct):
    """One entry of `partitions` of `DescribeProducersResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    active_producers: Annotated[tuple[ProducerState, ...], Array(ProducerState, "0+")] = ()


@message
class TopicResponse(Struct):
    """One entry of `topics` of `DescribeProducersResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[PartitionResponse, ...], Array(PartitionResponse, "0+")] = ()


@message
class DescribeProducersResponse(ApiMessage):
    """The response of the `DescribeProducers` API (key 61), version 0."""

    api_key: ClassVar[int] = 61
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    topics: Annotated[tuple[TopicResponse, ...], Array(TopicResponse, "0+")] = ()
