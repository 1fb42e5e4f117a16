"""The request and the response of the DeleteTopics API (key 20).

Source: DeleteTopicsRequest.json and DeleteTopicsResponse.json, Apache Kafka 4.3.
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
class DeleteTopicState(Struct):
    """One entry of `topics` of `DeleteTopicsRequest`."""

    name: Annotated[str | None, String("6+", nullable="6+")] = None
    topic_id: Annotated[UUID, Uuid("6+")] = ZERO_UUID


@message
class DeleteTopicsRequest(ApiMessage):
    """The request of the `DeleteTopics` API (key 20), versions 1-6."""

    api_key: ClassVar[int] = 20
    valid_versions: ClassVar[Versions] = versions("1-6")
    flexible_versions: ClassVar[Versions] = versions("4+")

    topics: Annotated[tuple[DeleteTopicState, ...], Array(DeleteTopicState, "6+")] = ()
    topic_names: Annotated[tuple[str, ...], Array(String, "0-5", ignorable=True)] = ()
    timeout_ms: Annotated[int, Int32("0+")] = 0


@message
class DeletableTopicResult(Struct):
    """One entry of `responses` of `DeleteTopicsResponse`."""

    name: Annotated[str | None, String("0+", nullable="6+")] = ""
    topic_id: Annotated[UUID, Uuid("6+", ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None


@message
class DeleteTopicsResponse(ApiMessage):
    """The response of the `DeleteTopics` API (key 20), versions 1-6."""

    api_key: ClassVar[int] = 20
    valid_versions: ClassVar[Versions] = versions("1-6")
    flexible_versions: ClassVar[Versions] = versions("4+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    responses: Annotated[tuple[DeletableTopicResult, ...], Array(DeletableTopicResult, "0+")] = ()
