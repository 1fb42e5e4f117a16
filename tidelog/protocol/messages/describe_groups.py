"""The request and the response of the DescribeGroups API (key 15).

Source: DescribeGroupsRequest.json and DescribeGroupsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Bytes,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class DescribeGroupsRequest(ApiMessage):
    """The request of the `DescribeGroups` API (key 15), versions 0-6."""

    api_key: ClassVar[int] = 15
    valid_versions: ClassVar[Versions] = versions("0-6")
    flexible_versions: ClassVar[Versions] = versions("5+")

    groups: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    include_authorized_operations: Annotated[bool, Bool("3+")] = False


@message
class DescribedGroupMember(Struct):
    """One entry of `members` of `DescribeGroupsResponse`."""

    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("4+", nullable="4+", ignorable=True)] = None
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    member_metadata: Annotated[bytes, Bytes("0+")] = b""
    member_assignment: Annotated[bytes, Bytes("0+")] = b""


@message
class DescribedGroup(Struct):
    """One entry of `groups` of `DescribeGroupsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("6+", nullable="6+")] = None
    group_id: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("0+")] = ""
    protocol_type: Annotated[str, String("0+")] = ""
    protocol_data: Annotated[str, String("0+")] = ""
    members: Annotated[tuple[DescribedGroupMember, ...], Array(DescribedGroupMember, "0+")] = ()
    authorized_operations: Annotated[int, Int32("3+")] = -2147483648


@message
class DescribeGroupsResponse(ApiMessage):
    """The response of the `DescribeGroups` API (key 15), versions 0-6."""

    api_key: ClassVar[int] = 15
    valid_versions: ClassVar[Versions] = versions("0-6")
    flexible_versions: ClassVar[Versions] = versions("5+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    groups: Annotated[tuple[DescribedGroup, ...], Array(DescribedGroup, "0+")] = ()
