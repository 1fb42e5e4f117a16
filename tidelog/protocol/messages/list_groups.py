"""The request and the response of the ListGroups API (key 16).

Source: ListGroupsRequest.json and ListGroupsResponse.json, Apache Kafka 4.3.
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
class ListGroupsRequest(ApiMessage):
    """The request of the `ListGroups` API (key 16), versions 0-5."""

    api_key: ClassVar[int] = 16
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    states_filter: Annotated[tuple[str, ...], Array(String, "4+")] = ()
    types_filter: Annotated[tuple[str, ...], Array(String, "5+")] = ()


@message
class ListedGroup(Struct):
    """One entry of `groups` of `ListGroupsResponse`."""

    group_id: Annotated[str, String("0+")] = ""
    protocol_type: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("4+", ignorable=True)] = ""
    group_type: Annotated[str, String("5+", ignorable=True)] = ""


@message
class ListGroupsResponse(ApiMessage):
    """The response of the `ListGroups` API (key 16), versions 0-5."""

    api_key: ClassVar[int] = 16
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    groups: Annotated[tuple[ListedGroup, ...], Array(ListedGroup, "0+")] = ()
