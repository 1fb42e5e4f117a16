"""The request and the response of the AlterPartition API (key 56).

Source: AlterPartitionRequest.json and AlterPartitionResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Int8,
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
class BrokerState(Struct):
    """One entry of `new_isr_with_epochs` of `AlterPartitionRequest`."""

    broker_id: Annotated[int, Int32("3+")] = 0
    broker_epoch: Annotated[int, Int64("3+")] = -1


@message
class RequestPartitionData(Struct):
    """One entry of `partitions` of `AlterPartitionRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    new_isr: Annotated[tuple[int, ...], Array(Int32, "0-2")] = ()
    new_isr_with_epochs: Annotated[tuple[BrokerState, ...], Array(BrokerState, "3+")] = ()
    leader_recovery_state: Annotated[int, Int8("1+")] = 0
    partition_epoch: Annotated[int, Int32("0+")] = 0


@message
class RequestTopicData(Struct):
    """One entry of `topics` of `AlterPartitionRequest`."""

    topic_id: Annotated[UUID, Uuid("2+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[RequestPartitionData, ...], Array(RequestPartitionData, "0+")] = ()


@message
class AlterPartitionRequest(ApiMessage):
    """The request of the `AlterPartition` API (key 56), versions 2-3."""

    api_key: ClassVar[int] = 56
    valid_versions: ClassVar[Versions] = versions("2-3")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
    topics: Annotated[tuple[RequestTopicData, ...], Array(RequestTopicData, "0+")] = ()


@message
class ResponsePartitionData(Struct):
    """One entry of `partitions` of `AlterPartitionResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    isr: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    leader_recovery_state: Annotated[int, Int8("1+", ignorable=True)] = 0
    partition_epoch: Annotated[int, Int32("0+")] = 0


@message
class ResponseTopicData(Struct):
    """One entry of `topics` of `AlterPartitionResponse`."""

    topic_id: Annotated[UUID, Uuid("2+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[ResponsePartitionData, ...], Array(ResponsePartitionData, "0+")] = ()


@message
class AlterPartitionResponse(ApiMessage):
    """The response of the `AlterPartition` API (key 56), versions 2-3."""

    api_key: ClassVar[int] = 56
    valid_versions: ClassVar[Versions] = versions("2-3")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    topics: Annotated[tuple[ResponseTopicData, ...], Array(ResponseTopicData, "0+")] = ()
