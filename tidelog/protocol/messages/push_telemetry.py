"""The request and the response of the PushTelemetry API (key 72).

Source: PushTelemetryRequest.json and PushTelemetryResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class PushTelemetryRequest(ApiMessage):
    """The request of the `PushTelemetry` API (key 72), version 0."""

    api_key: ClassVar[int] = 72
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    client_instance_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    subscription_id: Annotated[int, Int32("0+")] = 0
    terminating: Annotated[bool, Bool("0+")] = False
    compression_type: Annotated[int, Int8("0+")] = 0
    metrics: Annotated[bytes, Bytes("0+")] = b""


@message
class PushTelemetryResponse(ApiMessage):
    """The response of the `PushTelemetry` API (key 72), version 0."""

    api_key: ClassVar[int] = 72
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
