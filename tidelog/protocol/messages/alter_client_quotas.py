"""The request and the response of the AlterClientQuotas API (key 49).

Source: AlterClientQuotasRequest.json and AlterClientQuotasResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Float64,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class RequestEntityData(Struct):
    """One entry of `entity` of `AlterClientQuotasRequest`."""

    entity_type: Annotated[str, String("0+")] = ""
    entity_name: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class OpData(Struct):
    """One entry of `ops` of `AlterClientQuotasRequest`."""

    key: Annotated[str, String("0+")] = ""
    value: Annotated[float, Float64("0+")] = 0.0
    remove: Annotated[bool, Bool("0+")] = False


@message
class RequestEntryData(Struct):
    """One entry of `entries` of `AlterClientQuotasRequest`."""

    entity: Annotated[tuple[RequestEntityData, ...], Array(RequestEntityData, "0+")] = ()
    ops: Annotated[tuple[OpData, ...], Array(OpData, "0+")] = ()


@message
class AlterClientQuotasRequest(ApiMessage):
    """The request of the `AlterClientQuotas` API (key 49), versions 0-1."""

    api_key: ClassVar[int] = 49
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    entries: Annotated[tuple[RequestEntryData, ...], Array(RequestEntryData, "0+")] = ()
    validate_only: Annotated[bool, Bool("0+")] = False


@message
class ResponseEntityData(Struct):
    """One entry of `entity` of `AlterClientQuotasResponse`."""

    entity_type: Annotated[str, String("0+")] = ""
    entity_name: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class ResponseEntryData(Struct):
    """One entry of `entries` of `AlterClientQuotasResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    entity: Annotated[tuple[ResponseEntityData, ...], Array(ResponseEntityData, "0+")] = ()


@message
class AlterClientQuotasResponse(ApiMessage):
    """The response of the `AlterClientQuotas` API (key 49), versions 0-1."""

    api_key: ClassVar[int] = 49
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    entries: Annotated[tuple[ResponseEntryData, ...], Array(ResponseEntryData, "0+")] = ()
