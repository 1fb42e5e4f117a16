"""The request and the response of the JoinGroup API (key 11).

Source: JoinGroupRequest.json and JoinGroupResponse.json, Apache Kafka 4.3.
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
class JoinGroupRequestProtocol(Struct):
    """One entry of `protocols` of `JoinGroupRequest`."""

    name: Annotated[str, String("0+")] = ""
    metadata: Annotated[bytes, Bytes("0+")] = b""


@message
class JoinGroupRequest(ApiMessage):
    """The request of the `JoinGroup` API (key 11), versions 0-9."""

    api_key: ClassVar[int] = 11
    valid_versions: ClassVar[Versions] = versions("0-9")
    flexible_versions: ClassVar[Versions] = versions("6+")

    group_id: Annotated[str, String("0+")] = ""
    session_timeout_ms: Annotated[int, Int32("0+")] = 0
    rebalance_timeout_ms: Annotated[int, Int32("1+", ignorable=True)] = -1
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("5+", nullable="5+")] = None
    protocol_type: Annotated[str, String("0+")] = ""
    protocols: Annotated[tuple[JoinGroupRequestProtocol, ...], Array(JoinGroupRequestProtocol, "0+")] = ()
    reason: Annotated[str | None, String("8+", nullable="8+", ignorable=True)] = None


@message
class JoinGroupResponseMember(Struct):
    """One entry of `members` of `JoinGroupResponse`."""

    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    metadata: Annotated[bytes, Bytes("0+")] = b""


@message
class JoinGroupResponse(ApiMessage):
    """The response of the `JoinGroup` API (key 11), versions 0-9."""

    api_key: ClassVar[int] = 11
    valid_versions: ClassVar[Versions] = versions("0-9")
    flexible_versions: ClassVar[Versions] = versions("6+")

    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    generation_id: Annotated[int, Int32("0+")] = -1
    protocol_type: Annotated[str | None, String("7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, String("0+", nullable="7+")] = ""
    leader: Annotated[str, String("0+")] = ""
    skip_assignment: Annotated[bool, Bool("9+")] = False
    member_id: Annotated[str, String("0+")] = ""
    members: Annotated[tuple[JoinGroupResponseMember, ...], Array(JoinGroupResponseMember, "0+")] = ()
