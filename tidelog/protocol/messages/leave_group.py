"""The request and the response of the LeaveGroup API (key 13).

Source: LeaveGroupRequest.json and LeaveGroupResponse.json, Apache Kafka 4.3.
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
class MemberIdentity(Struct):
    """One entry of `members` of `LeaveGroupRequest`."""

    member_id: Annotated[str, String("3+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None
    reason: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None


@message
class LeaveGroupRequest(ApiMessage):
    """The request of the `LeaveGroup` API (key 13), versions 0-5."""

    api_key: ClassVar[int] = 13
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("4+")

    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0-2")] = ""
    members: Annotated[tuple[MemberIdentity, ...], Array(MemberIdentity, "3+")] = ()


@message
class MemberResponse(Struct):
    """One entry of `members` of `LeaveGroupResponse`."""

    member_id: Annotated[str, String("3+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = ""
    error_code: Annotated[int, Int16("3+")] = 0


@message
class LeaveGroupResponse(ApiMessage):
    """The response of the `LeaveGroup` API (key 13), versions 0-5."""

    api_key: ClassVar[int] = 13
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("4+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    members: Annotated[tuple[MemberResponse, ...], Array(MemberResponse, "3+")] = ()
