"""The request and the response of the DescribeConfigs API (key 32).

Source: DescribeConfigsRequest.json and DescribeConfigsResponse.json, Apache Kafka 4.3.
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
class DescribeConfigsResource(Struct):
    """One entry of `resources` of `DescribeConfigsRequest`."""

    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configuration_keys: Annotated[tuple[str, ...] | None, Array(String, "0+", nullable="0+")] = ()


@message
class DescribeConfigsRequest(ApiMessage):
    """The request of the `DescribeConfigs` API (key 32), versions 1-4."""

    api_key: ClassVar[int] = 32
    valid_versions: ClassVar[Versions] = versions("1-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    resources: Annotated[tuple[DescribeConfigsResource, ...], Array(DescribeConfigsResource, "0+")] = ()
    include_synonyms: Annotated[bool, Bool("1+")] = False
    include_documentation: Annotated[bool, Bool("3+")] = False


@message
class DescribeConfigsSynonym(Struct):
    """One entry of `synonyms` of `DescribeConfigsResponse`."""

    name: Annotated[str, String("1+")] = ""
    value: Annotated[str | None, String("1+", nullable="0+")] = ""
    source: Annotated[int, Int8("1+")] = 0


@message
class DescribeConfigsResourceResult(Struct):
    """One entry of `configs` of `DescribeConfigsResponse`."""

    name: Annotated[str, String("0+")] = ""
    value: Annotated[str | None, String("0+", nullable="0+")] = ""
    read_only: Annotated[bool, Bool("0+")] = False
    config_source: Annotated[int, Int8("1+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, Bool("0+")] = False
    synonyms: Annotated[
        tuple[DescribeConfigsSynonym, ...], Array(DescribeConfigsSynonym, "1+", ignorable=True)
    ] = ()
    config_type: Annotated[int, Int8("3+", ignorable=True)] = 0
    documentation: Annotated[str | None, String("3+", nullable="0+", ignorable=True)] = ""


@message
class DescribeConfigsResult(Struct):
    """One entry of `results` of `DescribeConfigsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configs: Annotated[
        tuple[DescribeConfigsResourceResult, ...], Array(DescribeConfigsResourceResult, "0+")
    ] = ()


@message
class DescribeConfigsResponse(ApiMessage):
    """The response of the `DescribeConfigs` API (key 32), versions 1-4."""

    api_key: ClassVar[int] = 32
    valid_versions: ClassVar[Versions] = versions("1-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[tuple[DescribeConfigsResult, ...], Array(DescribeConfigsResult, "0+")] = ()
