"""The request and the response of the BrokerRegistration API (key 62).

Source: BrokerRegistrationRequest.json and BrokerRegistrationResponse.json, Apache Kafka 4.3.
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
    Int64,
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
    """One entry of `listeners` of `BrokerRegistrationRequest`."""

    name: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0
    security_protocol: Annotated[int, Int16("0+")] = 0


@message
class Feature(Struct):
    """One entry of `features` of `BrokerRegistrationRequest`."""

    name: Annotated[str, String("0+")] = ""
    min_supported_version: Annotated[int, Int16("0+")] = 0
    max_supported_version: Annotated[int, Int16("0+")] = 0


@message
class BrokerRegistrationRequest(ApiMessage):
    """The request of the `BrokerRegistration` API (key 62), versions 0-4."""

    api_key: ClassVar[int] = 62
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    cluster_id: Annotated[str, String("0+")] = ""
    incarnation_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    listeners: Annotated[tuple[Listener, ...], Array(Listener, "0+")] = ()
    features: Annotated[tuple[Feature, ...], Array(Feature, "0+")] = ()
    rack: Annotated[str | None, String("0+", nullable="0+")] = ""
    is_migrating_zk_broker: Annotated[bool, Bool("1+")] = False
    log_dirs: Annotated[tuple[UUID, ...], Array(Uuid, "2+", ignorable=True)] = ()
    previous_broker_epoch: Annotated[int, Int64("3+", ignorable=True)] = -1


@message
class BrokerRegistrationResponse(ApiMessage):
    """The response of the `BrokerRegistration` API (key 62), versions 0-4."""

    api_key: ClassVar[int] = 62
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
