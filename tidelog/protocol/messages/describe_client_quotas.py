"""The request and the response of the DescribeClientQuotas API (key 48).

Source: DescribeClientQuotasRequest.json and DescribeClientQuotasResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class ComponentData(Struct):
    """One entry of `components` of `DescribeClientQuotasRequest`."""

    entity_type: Annotated[str, String("0+")] = ""
    match_type: Annotated[int, Int8("0+")] = 0
    match: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class DescribeClientQuotasRequest(ApiMessage):
    """The request of the `DescribeClientQuotas` API (key 48), versions 0-1."""

    api_key: ClassVar[int] = 48
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    components: Annotated[tuple[ComponentData, ...], Array(ComponentData, "0+")] = ()
    strict: Annotated[bool, Bool("0+")] = False


@message
class EntityData(Struct):
    """One entry of `entity` of `DescribeClientQuotasResponse`."""

    entity_type: Annotated[str, String("0+")] = ""
    entity_name: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class ValueData(Struct):
    """One entry of `values` of `DescribeClientQuotasResponse`."""

    key: Annotated[str, String("0+")] = ""
    value: Annotated[float, Float64("0+")] = 0.0


@message
class EntryData(Struct):
    """One entry of `entries` of `DescribeClientQuotasResponse`."""

    entity: Annotated[tuple[EntityData, ...], Array(EntityData, "0+")] = ()
    values: Annotated[tuple[ValueData, ...], Array(ValueData, "0+")] = ()


@message
class DescribeClientQuotasResponse(ApiMessage):
    """The response of the `DescribeClientQuotas` API (key 48), versions 0-1."""

    api_key: ClassVar[int] = 48
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    entries: Annotated[tuple[EntryData, ...] | None, Array(EntryData, "0+", nullable="0+")] = ()
