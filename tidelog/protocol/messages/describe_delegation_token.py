"""The request and the response of the DescribeDelegationToken API (key 41).

Source: DescribeDelegationTokenRequest.json and DescribeDelegationTokenResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bytes,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class DescribeDelegationTokenOwner(Struct):
    """One entry of `owners` of `DescribeDelegationTokenRequest`."""

    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""


@message
class DescribeDelegationTokenRequest(ApiMessage):
    """The request of the `DescribeDelegationToken` API (key 41), versions 1-3."""

    api_key: ClassVar[int] = 41
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    owners: Annotated[
        tuple[DescribeDelegationTokenOwner, ...] | None,
        Array(DescribeDelegationTokenOwner, "0+", nullable="0+"),
    ] = ()


@message
class DescribedDelegationTokenRenewer(Struct):
    """One entry of `renewers` of `DescribeDelegationTokenResponse`."""

    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""


@message
class DescribedDelegationToken(Struct):
    """One entry of `tokens` of `DescribeDelegationTokenResponse`."""

    hidden_fields: ClassVar[frozenset[str]] = frozenset({"hmac"})

    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""
    token_requester_principal_type: Annotated[str, String("3+")] = ""
    token_requester_principal_name: Annotated[str, String("3+")] = ""
    issue_timestamp: Annotated[int, Int64("0+")] = 0
    expiry_timestamp: Annotated[int, Int64("0+")] = 0
    max_timestamp: Annotated[int, Int64("0+")] = 0
    token_id: Annotated[str, String("0+")] = ""
    hmac: Annotated[bytes, Bytes("0+")] = b""
    renewers: Annotated[
        tuple[DescribedDelegationTokenRenewer, ...], Array(DescribedDelegationTokenRenewer, "0+")
    ] = ()


@message
class DescribeDelegationTokenResponse(ApiMessage):
    """The response of the `DescribeDelegationToken` API (key 41), versions 1-3."""

    api_key: ClassVar[int] = 41
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    error_code: Annotated[int, Int16("0+")] = 0
    tokens: Annotated[tuple[DescribedDelegationToken, ...], Array(DescribedDelegationToken, "0+")] = ()
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
