"""The request and the response of the ListConfigResources API (key 74).

Source: ListConfigResourcesRequest.json and ListConfigResourcesResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
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
class ListConfigResourcesRequest(ApiMessage):
    """The request of the `ListConfigResources` API (key 74), versions 0-1."""

    api_key: ClassVar[int] = 74
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    resource_types: Annotated[tuple[int, ...], Array(Int8, "1+")] = ()


@message
class ConfigResource(Struct):
    """One entry of `config_resources` of `ListConfigResourcesResponse`."""

    resource_name: Annotated[str, String("0+")] = ""
    resource_type: Annotated[int, Int8("1+", ignorable=True)] = 16


@message
class ListConfigResourcesResponse(ApiMessage):
    """The response of the `ListConfigResources` API (key 74), versions 0-1."""

    api_key: ClassVar[int] = 74
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    config_resources: Annotated[tuple[ConfigResource, ...], Array(ConfigResource, "0+")] = ()
