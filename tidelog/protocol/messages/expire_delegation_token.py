"""The request and the response of the ExpireDelegationToken API (key 40).

Source: ExpireDelegationTokenRequest.json and ExpireDelegationTokenResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Bytes, Int16, Int32, Int64, Versions, message, versions


@message
class ExpireDelegationTokenRequest(ApiMessage):
    """The request of the `ExpireDelegationToken` API (key 40), versions 1-2."""

    api_key: ClassVar[int] = 40
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("2+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"hmac"})

    hmac: Annotated[bytes, Bytes("0+")] = b""
    expiry_time_period_ms: Annotated[int, Int64("0+")] = 0


@message
class ExpireDelegationTokenResponse(ApiMessage):
    """The response of the `ExpireDelegationToken` API (key 40), versions 1-2."""

    api_key: ClassVar[int] = 40
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    error_code: Annotated[int, Int16("0+")] = 0
    expiry_timestamp_ms: Annotated[int, Int64("0+")] = 0
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
