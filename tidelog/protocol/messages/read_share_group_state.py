"""The request and the response of the ReadShareGroupState API (key 84).

Source: ReadShareGroupStateRequest.json and ReadShareGroupStateResponse.json, Apache Kafka 4.3.
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
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class PartitionData(Struct):
    """One entry of `partitions` of `ReadShareGroupStateRequest`."""

    partition: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


@message
class ReadStateData(Struct):
    """One entry of `topics` of `ReadShareGroupStateRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class ReadShareGroupStateRequest(ApiMessage):
    """The request of the `ReadShareGroupState` API (key 84), version 0."""

    api_key: ClassVar[int] = 84
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[ReadStateData, ...], Array(ReadStateData, "0+")] = ()


@message
class StateBatch(Struct):
    """One entry of `state_batches` of `ReadShareGroupStateResponse`."""

    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    delivery_state: Annotated[int, Int8("0+")] = 0
    delivery_count: Annotated[int, Int16("0+")] = 0


@message
class PartitionResult(Struct):
    """One entry of `partitions` of `ReadShareGroupStateResponse`."""

    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    state_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    state_batches: Annotated[tuple[StateBatch, ...], Array(StateBatch, "0+")] = ()


@message
class ReadStateResult(Struct):
    """One entry of `results` of `ReadShareGroupStateResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionResult, ...], Array(PartitionResult, "0+")] = ()


@message
class ReadShareGroupStateResponse(ApiMessage):
    """The response of the `ReadShareGroupState` API (key 84), version 0."""

    api_key: ClassVar[int] = 84
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    results: Annotated[tuple[ReadStateResult, ...], Array(ReadStateResult, "0+")] = ()
