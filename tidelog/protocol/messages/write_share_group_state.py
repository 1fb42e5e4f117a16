"""The request and the response of the WriteShareGroupState API (key 85).

Source: WriteShareGroupStateRequest.json and WriteShareGroupStateResponse.json, Apache Kafka 4.3.
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
class StateBatch(Struct):
    """One entry of `state_batches` of `WriteShareGroupStateRequest`."""

    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    delivery_state: Annotated[int, Int8("0+")] = 0
    delivery_count: Annotated[int, Int16("0+")] = 0


@message
class PartitionData(Struct):
    """One entry of `partitions` of `WriteShareGroupStateRequest`."""

    partition: Annotated[int, Int32("0+")] = 0
    state_epoch: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    delivery_complete_count: Annotated[int, Int32("1+", ignorable=True)] = -1
    state_batches: Annotated[tuple[StateBatch, ...], Array(StateBatch, "0+")] = ()


@message
class WriteStateData(Struct):
    """One entry of `topics` of `WriteShareGroupStateRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class WriteShareGroupStateRequest(ApiMessage):
    """The request of the `WriteShareGroupState` API (key 85), versions 0-1."""

    api_key: ClassVar[int] = 85
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[WriteStateData, ...], Array(WriteStateData, "0+")] = ()


@message
class PartitionResult(Struct):
    """One entry of `partitions` of `WriteShareGroupStateResponse`."""

    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class WriteStateResult(Struct):
    """One entry of `results` of `WriteShareGroupStateResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionResult, ...], Array(PartitionResult, "0+")] = ()


@message
class WriteShareGroupStateResponse(ApiMessage):
    """The response of the `WriteShareGroupState` API (key 85), versions 0-1."""

    api_key: ClassVar[int] = 85
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    results: Annotated[tuple[WriteStateResult, ...], Array(WriteStateResult, "0+")] = ()
