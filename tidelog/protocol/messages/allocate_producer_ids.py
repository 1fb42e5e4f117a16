"""The request and the response of the AllocateProducerIds API (key 67).

Source: AllocateProducerIdsRequest.json and AllocateProducerIdsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import ApiMessage, Int16, Int32, Int64, Versions, message, versions


@message
class AllocateProducerIdsRequest(ApiMessage):
    """The request of the `AllocateProducerIds` API (key 67), version 0."""

    api_key: ClassVar[int] = 67
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1


@message
class AllocateProducerIdsResponse(ApiMessage):
    """The response of the `AllocateProducerIds` API (key 67), version 0."""

    api_key: ClassVar[int] = 67
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    producer_id_start: Annotated[int, Int64("0+")] = 0
    producer_id_len: Annotated[int, Int32("0+")] = 0
