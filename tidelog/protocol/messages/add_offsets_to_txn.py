"""The request and the response of the AddOffsetsToTxn API (key 25).

Source: AddOffsetsToTxnRequest.json and AddOffsetsToTxnResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Int16, Int32, Int64, String, Versions, message, versions


@message
class AddOffsetsToTxnRequest(ApiMessage):
    """The request of the `AddOffsetsToTxn` API (key 25), versions 0-4."""

    api_key: ClassVar[int] = 25
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("3+")

    transactional_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    group_id: Annotated[str, String("0+")] = ""


@message
class AddOffsetsToTxnResponse(ApiMessage):
    """The response of the `AddOffsetsToTxn` API (key 25), versions 0-4."""

    api_key: ClassVar[int] = 25
    valid_versions: ClassVar[Versions] = versions("0-4")
    flexible_versions: ClassVar[Versions] = versions("3+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
