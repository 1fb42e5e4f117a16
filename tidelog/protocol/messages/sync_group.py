"""The request and the response of the SyncGroup API (key 14).

Source: SyncGroupRequest.json and SyncGroupResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
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
class SyncGroupRequestAssignment(Struct):
    """One entry of `assignments` of `SyncGroupRequest`."""

    member_id: Annotated[str, String("0+")] = ""
    assignment: Annotated[bytes, Bytes("0+")] = b""


@message
class SyncGroupRequest(ApiMessage):
    """The request of the `SyncGroup` API (key 14), versions 0-5."""

    api_key: ClassVar[int] = 14
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("4+")

    group_id: Annotated[str, String("0+")] = ""
    generation_id: Annotated[int, Int32("0+")] = 0
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    assignments: Annotated[
        tuple[SyncGroupRequestAssignment, ...], Array(SyncGroupRequestAssignment, "0+")
    ] = ()


@message
class SyncGroupResponse(ApiMessage):
    """The response of the `SyncGroup` API (key 14), versions 0-5."""

    api_key: ClassVar[int] = 14
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("4+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    protocol_type: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    assignment: Annotated[bytes, Bytes("0+")] = b""
