"""The request and the response of the UnregisterBroker API (key 64).

Source: UnregisterBrokerRequest.json and UnregisterBrokerResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Int16, Int32, String, Versions, message, versions


@message
class UnregisterBrokerRequest(ApiMessage):
    """The request of the `UnregisterBroker` API (key 64), version 0."""

    api_key: ClassVar[int] = 64
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0


@message
class UnregisterBrokerResponse(ApiMessage):
    """The response of the `UnregisterBroker` API (key 64), version 0."""

    api_key: ClassVar[int] = 64
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
