"""The request and the response of the DeleteGroups API (key 42).

Source: DeleteGroupsRequest.json and DeleteGroupsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class DeleteGroupsRequest(ApiMessage):
    """The request of the `DeleteGroups` API (key 42), versions 0-2."""

    api_key: ClassVar[int] = 42
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    groups_names: Annotated[tuple[str, ...], Array(String, "0+")] = ()


@message
class DeletableGroupResult(Struct):
    """One entry of `results` of `DeleteGroupsResponse`."""

    group_id: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0


@message
class DeleteGroupsResponse(ApiMessage):
    """The response of the `DeleteGroups` API (key 42), versions 0-2."""

    api_key: ClassVar[int] = 42
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[tuple[DeletableGroupResult, ...], Array(DeletableGroupResult, "0+")] = ()
