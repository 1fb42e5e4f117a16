"""Request and response headers.

Source: RequestHeader.json and ResponseHeader.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import Int16, Int32, Message, String, Versions, message, versions


@message
class RequestHeader(Message):
    """`RequestHeader`, versions 1-2."""

    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    request_api_key: Annotated[int, Int16("0+")] = 0
    request_api_version: Annotated[int, Int16("0+")] = 0
    correlation_id: Annotated[int, Int32("0+")] = 0
    client_id: Annotated[str | None, String("1+", nullable="1+", flexible="none")] = ""


@message
class ResponseHeader(Message):
    """`ResponseHeader`, versions 0-1."""

    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("1+")

    correlation_id: Annotated[int, Int32("0+")] = 0
