"""The request and the response of the DescribeUserScramCredentials API (key 50).

Source: DescribeUserScramCredentialsRequest.json and DescribeUserScramCredentialsResponse.json, Apache Kafka 4.3.
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
class UserName(Struct):
    """One entry of `users` of `DescribeUserScramCredentialsRequest`."""

    name: Annotated[str, String("0+")] = ""


@message
class DescribeUserScramCredentialsRequest(ApiMessage):
    """The request of the `DescribeUserScramCredentials` API (key 50), version 0."""

    api_key: ClassVar[int] = 50
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    users: Annotated[tuple[UserName, ...] | None, Array(UserName, "0+", nullable="0+")] = ()


@message
class CredentialInfo(Struct):
    """One entry of `credential_infos` of `DescribeUserScramCredentialsResponse`."""

    mechanism: Annotated[int, Int8("0+")] = 0
    iterations: Annotated[int, Int32("0+")] = 0


@message
class DescribeUserScramCredentialsResult(Struct):
    """One entry of `results` of `DescribeUserScramCredentialsResponse`."""

    user: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    credential_infos: Annotated[tuple[CredentialInfo, ...], Array(CredentialInfo, "0+")] = ()


@message
class DescribeUserScramCredentialsResponse(ApiMessage):
    """The response of the `DescribeUserScramCredentials` API (key 50), version 0."""

    api_key: ClassVar[int] = 50
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    results: Annotated[
        tuple[DescribeUserScramCredentialsResult, ...], Array(DescribeUserScramCredentialsResult, "0+")
    ] = ()
