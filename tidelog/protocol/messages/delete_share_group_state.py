"""The request and the response of the DeleteShareGroupState API (key 86).

Source: DeleteShareGroupStateRequest.json and DeleteShareGroupStateResponse.json, Apache Kafka 4.3.
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
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class PartitionData(Struct):
    """One entry of `partitions` of `DeleteShareGroupStateRequest`."""

    partition: Annotated[int, Int32("0+")] = 0


@message
class DeleteStateData(Struct):
    """One entry of `topics` of `DeleteShareGroupStateRequest`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class DeleteShareGroupStateRequest(ApiMessage):
    """The request of the `DeleteShareGroupState` API (key 86), version 0."""

    api_key: ClassVar[int] = 86
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[tuple[DeleteStateData, ...], Array(DeleteStateData, "0+")] = ()


@message
class PartitionResult(Struct):
    """One entry of `partitions` of `DeleteShareGroupStateResponse`."""

    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class DeleteStateResult(Struct):
    """One entry of `results` of `DeleteShareGroupStateResponse`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[PartitionResult, ...], Array(PartitionResult, "0+")] = ()


@message
class DeleteShareGroupStateResponse(ApiMessage):
    """The response of the `DeleteShareGroupState` API (key 86), version 0."""

    api_key: ClassVar[int] = 86
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    results: Annotated[tuple[DeleteStateResult, ...], Array(DeleteStateResult, "0+")] = ()
