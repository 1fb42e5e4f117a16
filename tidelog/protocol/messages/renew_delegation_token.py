"""The request and the response of the RenewDelegationToken API (key 39).

Source: RenewDelegationTokenRequest.json and RenewDelegationTokenResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Bytes, Int16, Int32, Int64, Versions, message, versions


@message
class RenewDelegationTokenRequest(ApiMessage):
    """The request of the `RenewDelegationToken` API (key 39), versions 1-2."""

    api_key: ClassVar[int] = 39
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("2+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"hmac"})

    hmac: Annotated[bytes, Bytes("0+")] = b""
    renew_period_ms: Annotated[int, Int64("0+")] = 0


@message
class RenewDelegationTokenResponse(ApiMessage):
    """The response of the `RenewDelegationToken` API (key 39), versions 1-2."""

    api_key: ClassVar[int] = 39
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    error_code: Annotated[int, Int16("0+")] = 0
    expiry_timestamp_ms: Annotated[int, Int64("0+")] = 0
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
