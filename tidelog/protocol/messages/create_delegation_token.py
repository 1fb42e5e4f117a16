"""The request and the response of the CreateDelegationToken API (key 38).

Source: CreateDelegationTokenRequest.json and CreateDelegationTokenResponse.json, Apache Kafka 4.3.
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
class CreatableRenewers(Struct):
    """One entry of `renewers` of `CreateDelegationTokenRequest`."""

    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""


@message
class CreateDelegationTokenRequest(ApiMessage):
    """The request of the `CreateDelegationToken` API (key 38), versions 1-3."""

    api_key: ClassVar[int] = 38
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")

    owner_principal_type: Annotated[str | None, String("3+", nullable="3+")] = ""
    owner_principal_name: Annotated[str | None, String("3+", nullable="3+")] = ""
    renewers: Annotated[tuple[CreatableRenewers, ...], Array(CreatableRenewers, "0+")] = ()
    max_lifetime_ms: Annotated[int, Int64("0+")] = 0


@message
class CreateDelegationTokenResponse(ApiMessage):
    """The response of the `CreateDelegationToken` API (key 38), versions 1-3."""

    api_key: ClassVar[int] = 38
    valid_versions: ClassVar[Versions] = versions("1-3")
    flexible_versions: ClassVar[Versions] = versions("2+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"hmac"})

    error_code: Annotated[int, Int16("0+")] = 0
    principal_type: Annotated[str, String("0+")] = ""
    principal_name: Annotated[str, String("0+")] = ""
    token_requester_principal_type: Annotated[str, String("3+")] = ""
    token_requester_principal_name: Annotated[str, String("3+")] = ""
    issue_timestamp_ms: Annotated[int, Int64("0+")] = 0
    expiry_timestamp_ms: Annotated[int, Int64("0+")] = 0
    max_timestamp_ms: Annotated[int, Int64("0+")] = 0
    token_id: Annotated[str, String("0+")] = ""
    hmac: Annotated[bytes, Bytes("0+")] = b""
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
