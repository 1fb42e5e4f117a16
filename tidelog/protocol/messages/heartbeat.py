"""The request and the response of the Heartbeat API (key 12).

Source: HeartbeatRequest.json and HeartbeatResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Int16, Int32, String, Versions, message, versions


@message
class HeartbeatRequest(ApiMessage):
    """The request of the `Heartbeat` API (key 12), versions 0-4."""

    api_key: ClassVar[int] = 12
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    group_id: Annotated[str, String("0+")] = ""
    generation_id: Annotated[int, Int32("0+")] = 0
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None


@message
class HeartbeatResponse(ApiMessage):
    """The response of the `Heartbeat` API (key 12), versions 0-4."""

    api_key: ClassVar[int] = 12
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
