"""The request and the response of the ControllerRegistration API (key 70).

Source: ControllerRegistrationRequest.json and ControllerRegistrationResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Bool,
    Int16,
    Int32,
    String,
    Struct,
    UInt16,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class Listener(Struct):
    """One entry of `listeners` of `ControllerRegistrationRequest`."""

    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0
    security_protocol: Annotated[int, Int16("0+")] = 0


@message
class Feature(Struct):
    """One entry of `features` of `ControllerRegistrationRequest`."""

    name: Annotated[str, String("0+")] = ""
    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


@message
class ControllerRegistrationRequest(ApiMessage):
    """The request of the `ControllerRegistration` API (key 70), version 0."""

    api_key: ClassVar[int] = 70
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    controller_id: Annotated[int, Int32("0+")] = 0
    incarnation_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    zk_migration_ready: Annotated[bool, Bool("0+")] = False
    listeners: Annotated[tuple[Listener, ...], Array(Listener, "0+")] = ()
    features: Annotated[tuple[Feature, ...], Array(Feature, "0+")] = ()


@message
class ControllerRegistrationResponse(ApiMessage):
    """The response of the `ControllerRegistration` API (key 70), version 0."""

    api_key: ClassVar[int] = 70
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
