"""The request and the response of the GetTelemetrySubscriptions API (key 71).

Source: GetTelemetrySubscriptionsRequest.json and GetTelemetrySubscriptionsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    String,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class GetTelemetrySubscriptionsRequest(ApiMessage):
    """The request of the `GetTelemetrySubscriptions` API (key 71), version 0."""

    api_key: ClassVar[int] = 71
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    client_instance_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID


@message
class GetTelemetrySubscriptionsResponse(ApiMessage):
    """The response of the `GetTelemetrySubscriptions` API (key 71), version 0."""

    api_key: ClassVar[int] = 71
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    client_instance_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    subscription_id: Annotated[int, Int32("0+")] = 0
    accepted_compression_types: Annotated[tuple[int, ...], Array(Int8, "0+")] = ()
    push_interval_ms: Annotated[int, Int32("0+")] = 0
    telemetry_max_bytes: Annotated[int, Int32("0+")] = 0
    delta_temporality: Annotated[bool, Bool("0+")] = False
    requested_metrics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
