"""The request and the response of the ReadShareGroupStateSummary API (key 87).

Source: ReadShareGroupStateSummaryRequest.json and ReadShareGroupStateSummaryResponse.json, Apache Kafka 4.3.
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
    """One entry of `partitions` of `ReadShareGroupStateSummaryRequest`."""

    partition: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


@message
class ReadStateSummaryData(Struct):
    """One entry of `topics` of `ReadShareGroupStateSummaryRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class ReadShareGroupStateSummaryRequest(ApiMessage):
    """The request of the `ReadShareGroupStateSummary` API (key 87), versions 0-1."""

    api_key: ClassVar[int] = 87
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[ReadStateSummaryData, ...], Array(ReadStateSummaryData, "0+")] = ()


@message
class PartitionResult(Struct):
    """One entry of `partitions` of `ReadShareGroupStateSummaryResponse`."""

    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    state_epoch: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    delivery_complete_count: Annotated[int, Int32("1+", ignorable=True)] = -1


@message
class ReadStateSummaryResult(Struct):
    """One entry of `results` of `ReadShareGroupStateSummaryResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionResult, ...], Array(PartitionResult, "0+")] = ()


@message
class ReadShareGroupStateSummaryResponse(ApiMessage):
    """The response of the `ReadShareGroupStateSummary` API (key 87), versions 0-1."""

    api_key: ClassVar[int] = 87
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    results: Annotated[tuple[ReadStateSummaryResult, ...], Array(ReadStateSummaryResult, "0+")] = ()
