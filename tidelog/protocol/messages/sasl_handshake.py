"""The request and the response of the SaslHandshake API (key 17).

Source: SaslHandshakeRequest.json and SaslHandshakeResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Array, Int16, String, Versions, message, versions


@message
class SaslHandshakeRequest(ApiMessage):
    """The request of the `SaslHandshake` API (key 17), versions 0-1."""

    api_key: ClassVar[int] = 17
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("none")

    mechanism: Annotated[str, String("0+")] = ""


@message
class SaslHandshakeResponse(ApiMessage):
    """The response of the `SaslHandshake` API (key 17), versions 0-1."""

    api_key: ClassVar[int] = 17
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("none")

    error_code: Annotated[int, Int16("0+")] = 0
    mechanisms: Annotated[tuple[str, ...], Array(String, "0+")] = ()
