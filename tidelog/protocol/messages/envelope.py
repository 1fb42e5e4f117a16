"""The request and the response of the Envelope API (key 58).

Source: EnvelopeRequest.json and EnvelopeResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Bytes, Int16, Versions, message, versions


@message
class EnvelopeRequest(ApiMessage):
    """The request of the `Envelope` API (key 58), version 0."""

    api_key: ClassVar[int] = 58
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"request_data"})

    request_data: Annotated[bytes, Bytes("0+")] = b""
    request_principal: Annotated[bytes | None, Bytes("0+", nullable="0+")] = b""
    client_host_address: Annotated[bytes, Bytes("0+")] = b""


@message
class EnvelopeResponse(ApiMessage):
    """The response of the `Envelope` API (key 58), version 0."""

    api_key: ClassVar[int] = 58
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")
    hidden_fields: ClassVar[frozenset[str]] = frozenset({"response_data"})

    response_data: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
    error_code: Annotated[int, Int16("0+")] = 0
