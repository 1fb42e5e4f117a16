"""The request and the response of the EndTxn API (key 26).

Source: EndTxnRequest.json and EndTxnResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Bool, Int16, Int32, Int64, String, Versions, message, versions


@message
class EndTxnRequest(ApiMessage):
    """The request of the `EndTxn` API (key 26), versions 0-5."""

    api_key: ClassVar[int] = 26
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    transactional_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    committed: Annotated[bool, Bool("0+")] = False


@message
class EndTxnResponse(ApiMessage):
    """The response of the `EndTxn` API (key 26), versions 0-5."""

    api_key: ClassVar[int] = 26
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    producer_id: Annotated[int, Int64("5+", ignorable=True)] = -1
    producer_epoch: Annotated[int, Int16("5+", ignorable=True)] = -1
