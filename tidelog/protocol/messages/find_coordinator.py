"""The request and the response of the FindCoordinator API (key 10).

Source: FindCoordinatorRequest.json and FindCoordinatorResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int8,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class FindCoordinatorRequest(ApiMessage):
    """The request of the `FindCoordinator` API (key 10), versions 0-6."""

    api_key: ClassVar[int] = 10
    valid_versions: ClassVar[Versions] = versions("0-6")
    flexible_versions: ClassVar[Versions] = versions("3+")

    key: Annotated[str, String("0-3")] = ""
    key_type: Annotated[int, Int8("1+")] = 0
    coordinator_keys: Annotated[tuple[str, ...], Array(String, "4+")] = ()


@message
class Coordinator(Struct):
    """One entry of `coordinators` of `FindCoordinatorResponse`."""

    key: Annotated[str, String("4+")] = ""
    node_id: Annotated[int, Int32("4+")] = 0
    host: Annotated[str, String("4+")] = ""
    port: Annotated[int, Int32("4+")] = 0
    error_code: Annotated[int, Int16("4+")] = 0
    error_message: Annotated[str | None, String("4+", nullable="4+", ignorable=True)] = ""


@message
class FindCoordinatorResponse(ApiMessage):
    """The response of the `FindCoordinator` API (key 10), versions 0-6."""

    api_key: ClassVar[int] = 10
    valid_versions: ClassVar[Versions] = versions("0-6")
    flexible_versions: ClassVar[Versions] = versions("3+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0-3")] = 0
    error_message: Annotated[str | None, String("1-3", nullable="1-3", ignorable=True)] = ""
    node_id: Annotated[int, Int32("0-3")] = 0
    host: Annotated[str, String("0-3")] = ""
    port: Annotated[int, Int32("0-3")] = 0
    coordinators: Annotated[tuple[Coordinator, ...], Array(Coordinator, "4+")] = ()
