"""The request and the response of the IncrementalAlterConfigs API (key 44).

Source: IncrementalAlterConfigsRequest.json and IncrementalAlterConfigsResponse.json, Apache Kafka 4.3.
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
    """One entry of `configs` of `IncrementalAlterConfigsRequest`."""

    hidden_fields: ClassVar[frozenset[str]] = frozenset({"value"})

    name: Annotated[str, String("0+")] = ""
    config_operation: Annotated[int, Int8("0+")] = 0
    value: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class AlterConfigsResource(Struct):
    """One entry of `resources` of `IncrementalAlterConfigsRequest`."""

    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configs: Annotated[tuple[AlterableConfig, ...], Array(AlterableConfig, "0+")] = ()


@message
class IncrementalAlterConfigsRequest(ApiMessage):
    """The request of the `IncrementalAlterConfigs` API (key 44), versions 0-1."""

    api_key: ClassVar[int] = 44
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    resources: Annotated[tuple[AlterConfigsResource, ...], Array(AlterConfigsResource, "0+")] = ()
    validate_only: Annotated[bool, Bool("0+")] = False


@message
class AlterConfigsResourceResponse(Struct):
    """One entry of `responses` of `IncrementalAlterConfigsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""


@message
class IncrementalAlterConfigsResponse(ApiMessage):
    """The response of the `IncrementalAlterConfigs` API (key 44), versions 0-1."""

    api_key: ClassVar[int] = 44
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    responses: Annotated[
        tuple[AlterConfigsResourceResponse, ...], Array(AlterConfigsResourceResponse, "0+")
    ] = ()
