"""The request and the response of the InitProducerId API (key 22).

Source: InitProducerIdRequest.json and InitProducerIdResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Bool, Int16, Int32, Int64, String, Versions, message, versions


@message
class InitProducerIdRequest(ApiMessage):
    """The request of the `InitProducerId` API (key 22), versions 0-6."""

    api_key: ClassVar[int] = 22
    valid_versions: ClassVar[Versions] = versions("0-6")
    flexible_versions: ClassVar[Versions] = versions("2+")

    transactional_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    transaction_timeout_ms: Annotated[int, Int32("0+")] = 0
    producer_id: Annotated[int, Int64("3+")] = -1
    producer_epoch: Annotated[int, Int16("3+")] = -1
    enable2_pc: Annotated[bool, Bool("6+")] = False
    keep_prepared_txn: Annotated[bool, Bool("6+")] = False


@message
class InitProducerIdResponse(ApiMessage):
    """The response of the `InitProducerId` API (key 22), versions 0-6."""

    api_key: ClassVar[int] = 22
    valid_versions: ClassVar[Versions] = versions("0-6")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    producer_id: Annotated[int, Int64("0+")] = -1
    producer_epoch: Annotated[int, Int16("0+")] = 0
    ongoing_txn_producer_id: Annotated[int, Int64("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[int, Int16("6+")] = -1
