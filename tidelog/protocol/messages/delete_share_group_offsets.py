"""The request and the response of the DeleteShareGroupOffsets API (key 92).

Source: DeleteShareGroupOffsetsRequest.json and DeleteShareGroupOffsetsResponse.json, Apache Kafka 4.3.
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
class DeleteShareGroupOffsetsRequestTopic(Struct):
    """One entry of `topics` of `DeleteShareGroupOffsetsRequest`."""

    topic_name: Annotated[str, String("0+")] = ""


@message
class DeleteShareGroupOffsetsRequest(ApiMessage):
    """The request of the `DeleteShareGroupOffsets` API (key 92), version 0."""

    api_key: ClassVar[int] = 92
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[
        tuple[DeleteShareGroupOffsetsRequestTopic, ...], Array(DeleteShareGroupOffsetsRequestTopic, "0+")
    ] = ()


@message
class DeleteShareGroupOffsetsResponseTopic(Struct):
    """One entry of `responses` of `DeleteShareGroupOffsetsResponse`."""

    topic_name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class DeleteShareGroupOffsetsResponse(ApiMessage):
    """The response of the `DeleteShareGroupOffsets` API (key 92), version 0."""

    api_key: ClassVar[int] = 92
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    responses: Annotated[
        tuple[DeleteShareGroupOffsetsResponseTopic, ...], Array(DeleteShareGroupOffsetsResponseTopic, "0+")
    ] = ()
