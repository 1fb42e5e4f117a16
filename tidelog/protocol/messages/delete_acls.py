"""The request and the response of the DeleteAcls API (key 31).

Source: DeleteAclsRequest.json and DeleteAclsResponse.json, Apache Kafka 4.3.
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
class DeleteAclsFilter(Struct):
    """One entry of `filters` of `DeleteAclsRequest`."""

    resource_type_filter: Annotated[int, Int8("0+")] = 0
    resource_name_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    pattern_type_filter: Annotated[int, Int8("1+")] = 3
    principal_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    host_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0


@message
class DeleteAclsRequest(ApiMessage):
    """The request of the `DeleteAcls` API (key 31), versions 1-3."""

    api_key: ClassVar[int] = 31
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    filters: Annotated[tuple[DeleteAclsFilter, ...], Array(DeleteAclsFilter, "0+")] = ()


@message
class DeleteAclsMatchingAcl(Struct):
    """One entry of `matching_acls` of `DeleteAclsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    pattern_type: Annotated[int, Int8("1+")] = 3
    principal: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0


@message
class DeleteAclsFilterResult(Struct):
    """One entry of `filter_results` of `DeleteAclsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    matching_acls: Annotated[tuple[DeleteAclsMatchingAcl, ...], Array(DeleteAclsMatchingAcl, "0+")] = ()


@message
class DeleteAclsResponse(ApiMessage):
    """The response of the `DeleteAcls` API (key 31), versions 1-3."""

    api_key: ClassVar[int] = 31
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    filter_results: Annotated[tuple[DeleteAclsFilterResult, ...], Array(DeleteAclsFilterResult, "0+")] = ()
