"""The request and the response of the SaslAuthenticate API (key 36).

Source: SaslAuthenticateRequest.json and SaslAuthenticateResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Bytes, Int16, Int64, String, Versions, message, versions


@message
class SaslAuthenticateRequest(ApiMessage):
    """The request of the `SaslAuthenticate` API (key 36), versions 0-2."""

    api_key: ClassVar[int] = 36
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"auth_bytes"})

    auth_bytes: Annotated[bytes, Bytes("0+")] = b""


@message
class SaslAuthenticateResponse(ApiMessage):
    """The response of the `SaslAuthenticate` API (key 36), versions 0-2."""

    api_key: ClassVar[int] = 36
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"auth_bytes"})

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    auth_bytes: Annotated[bytes, Bytes("0+")] = b""
    session_lifetime_ms: Annotated[int, Int64("1+", ignorable=True)] = 0
