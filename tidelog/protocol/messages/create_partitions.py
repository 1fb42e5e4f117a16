"""The request and the response of the CreatePartitions API (key 37).

Source: CreatePartitionsRequest.json and CreatePartitionsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class CreatePartitionsAssignment(Struct):
    """One entry of `assignments` of `CreatePartitionsRequest`."""

    broker_ids: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class CreatePartitionsTopic(Struct):
    """One entry of `topics` of `CreatePartitionsRequest`."""

    name: Annotated[str, String("0+")] = ""
    count: Annotated[int, Int32("0+")] = 0
    assignments: Annotated[
        tuple[CreatePartitionsAssignment, ...] | None, Array(CreatePartitionsAssignment, "0+", nullable="0+")
    ] = ()


@message
class CreatePartitionsRequest(ApiMessage):
    """The request of the `CreatePartitions` API (key 37), versions 0-3."""

    api_key: ClassVar[int] = 37
    valid_versions: ClassVar[Versions] = versions("0-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    topics: Annotated[tuple[CreatePartitionsTopic, ...], Array(CreatePartitionsTopic, "0+")] = ()
    timeout_ms: Annotated[int, Int32("0+")] = 0
    validate_only: Annotated[bool, Bool("0+")] = False


@message
class CreatePartitionsTopicResult(Struct):
    """One entry of `results` of `CreatePartitionsResponse`."""

    name: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


@message
class CreatePartitionsResponse(ApiMessage):
    """The response of the `CreatePartitions` API (key 37), versions 0-3."""

    api_key: ClassVar[int] = 37
    valid_versions: ClassVar[Versions] = versions("0-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[tuple[CreatePartitionsTopicResult, ...], Array(CreatePartitionsTopicResult, "0+")] = ()
