"""The request and the response of the CreateAcls API (key 30).

Source: CreateAclsRequest.json and CreateAclsResponse.json, Apache Kafka 4.3.
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
class AclCreation(Struct):
    """One entry of `creations` of `CreateAclsRequest`."""

    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    resource_pattern_type: Annotated[int, Int8("1+")] = 3
    principal: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0


@message
class CreateAclsRequest(ApiMessage):
    """The request of the `CreateAcls` API (key 30), versions 1-3."""

    api_key: ClassVar[int] = 30
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    creations: Annotated[tuple[AclCreation, ...], Array(AclCreation, "0+")] = ()


@message
class AclCreationResult(Struct):
    """One entry of `results` of `CreateAclsResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class CreateAclsResponse(ApiMessage):
    """The response of the `CreateAcls` API (key 30), versions 1-3."""

    api_key: ClassVar[int] = 30
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[tuple[AclCreationResult, ...], Array(AclCreationResult, "0+")] = ()
