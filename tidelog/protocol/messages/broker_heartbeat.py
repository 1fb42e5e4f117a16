"""The request and the response of the BrokerHeartbeat API (key 63).

Source: BrokerHeartbeatRequest.json and BrokerHeartbeatResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class BrokerHeartbeatRequest(ApiMessage):
    """The request of the `BrokerHeartbeat` API (key 63), versions 0-2."""

    api_key: ClassVar[int] = 63
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
    current_metadata_offset: Annotated[int, Int64("0+")] = 0
    want_fence: Annotated[bool, Bool("0+")] = False
    want_shut_down: Annotated[bool, Bool("0+")] = False
    offline_log_dirs: Annotated[tuple[UUID, ...], Array(Uuid, "1+", tag=0, tagged="1+")] = ()
    cordoned_log_dirs: Annotated[
        tuple[UUID, ...] | None, Array(Uuid, "2+", nullable="2+", tag=1, tagged="2+")
    ] = None


@message
class BrokerHeartbeatResponse(ApiMessage):
    """The response of the `BrokerHeartbeat` API (key 63), versions 0-2."""

    api_key: ClassVar[int] = 63
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    is_caught_up: Annotated[bool, Bool("0+")] = False
    is_fenced: Annotated[bool, Bool("0+")] = True
    should_shut_down: Annotated[bool, Bool("0+")] = False
