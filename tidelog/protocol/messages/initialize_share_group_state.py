"""The request and the response of the InitializeShareGroupState API (key 83).

Source: InitializeShareGroupStateRequest.json and InitializeShareGroupStateResponse.json, Apache Kafka 4.3.
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
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class PartitionData(Struct):
    """One entry of `partitions` of `InitializeShareGroupStateRequest`."""

    partition: Annotated[int, Int32("0+")] = 0
    state_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0


@message
class InitializeStateData(Struct):
    """One entry of `topics` of `InitializeShareGroupStateRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class InitializeShareGroupStateRequest(ApiMessage):
    """The request of the `InitializeShareGroupState` API (key 83), version 0."""

    api_key: ClassVar[int] = 83
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[InitializeStateData, ...], Array(InitializeStateData, "0+")] = ()


@message
class PartitionResult(Struct):
    """One entry of `partitions` of `InitializeShareGroupStateResponse`."""

    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class InitializeStateResult(Struct):
    """One entry of `results` of `InitializeShareGroupStateResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionResult, ...], Array(PartitionResult, "0+")] = ()


@message
class InitializeShareGroupStateResponse(ApiMessage):
    """The response of the `InitializeShareGroupState` API (key 83), version 0."""

    api_key: ClassVar[int] = 83
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    results: Annotated[tuple[InitializeStateResult, ...], Array(InitializeStateResult, "0+")] = ()
