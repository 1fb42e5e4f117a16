"""The request and the response of the DescribeAcls API (key 29).

Source: DescribeAclsRequest.json and DescribeAclsResponse.json, Apache Kafka 4.3.
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
class DescribeAclsRequest(ApiMessage):
    """The request of the `DescribeAcls` API (key 29), versions 1-3."""

    api_key: ClassVar[int] = 29
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    resource_type_filter: Annotated[int, Int8("0+")] = 0
    resource_name_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    pattern_type_filter: Annotated[int, Int8("1+")] = 3
    principal_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    host_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0


@message
class AclDescription(Struct):
    """One entry of `acls` of `DescribeAclsResponse`."""

    principal: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0


@message
class DescribeAclsResource(Struct):
    """One entry of `resources` of `DescribeAclsResponse`."""

    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    pattern_type: Annotated[int, Int8("1+")] = 3
    acls: Annotated[tuple[AclDescription, ...], Array(AclDescription, "0+")] = ()


@message
class DescribeAclsResponse(ApiMessage):
    """The response of the `DescribeAcls` API (key 29), versions 1-3."""

    api_key: ClassVar[int] = 29
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resources: Annotated[tuple[DescribeAclsResource, ...], Array(DescribeAclsResource, "0+")] = ()
