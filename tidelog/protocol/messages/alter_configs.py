"""The request and the response of the AlterConfigs API (key 33).

Source: AlterConfigsRequest.json and AlterConfigsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
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
class AlterableConfig(Struct):
    """One entry of `configs` of `AlterConfigsRequest`."""

    hidden_fields: ClassVar[frozenset[str]] = frozenset({"value"})

    name: Annotated[str, String("0+")] = ""
    value: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class AlterConfigsResource(Struct):
    """One entry of `resources` of `AlterConfigsRequest`."""

    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configs: Annotated[tuple[AlterableConfig, ...], Array(AlterableConfig, "0+")] = ()


@message
class AlterConfigsRequest(ApiMessage):
    """The request of the `AlterConfigs` API (key 33), versions 0-2."""

    api_key: ClassVar[int] = 33
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    resources: Annotated[tuple[AlterConfigsResource, ...], Array(AlterConfigsResource, "0+")] = ()
    validate_only: Annotated[bool, Bool("0+")] = False


@message
class AlterConfigsResourceResponse(Struct):
    """One entry of `responses` of `AlterConfigsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""


@message
class AlterConfigsResponse(ApiMessage):
    """The response of the `AlterConfigs` API (key 33), versions 0-2."""

    api_key: ClassVar[int] = 33
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    responses: Annotated[
        tuple[AlterConfigsResourceResponse, ...], Array(AlterConfigsResourceResponse, "0+")
    ] = ()
