"""The request and the response of the DeleteRecords API (key 21).

Source: DeleteRecordsRequest.json and DeleteRecordsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class DeleteRecordsPartition(Struct):
    """One entry of `partitions` of `DeleteRecordsRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    offset: Annotated[int, Int64("0+")] = 0


@message
class DeleteRecordsTopic(Struct):
    """One entry of `topics` of `DeleteRecordsRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[DeleteRecordsPartition, ...], Array(DeleteRecordsPartition, "0+")] = ()


@message
class DeleteRecordsRequest(ApiMessage):
    """The request of the `DeleteRecords` API (key 21), versions 0-2."""

    api_key: ClassVar[int] = 21
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    topics: Annotated[tuple[DeleteRecordsTopic, ...], Array(DeleteRecordsTopic, "0+")] = ()
    timeout_ms: Annotated[int, Int32("0+")] = 0


@message
class DeleteRecordsPartitionResult(Struct):
    """One entry of `partitions` of `DeleteRecordsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    low_watermark: Annotated[int, Int64("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0


@message
class DeleteRecordsTopicResult(Struct):
    """One entry of `topics` of `DeleteRecordsResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[DeleteRecordsPartitionResult, ...], Array(DeleteRecordsPartitionResult, "0+")
    ] = ()


@message
class DeleteRecordsResponse(ApiMessage):
    """The response of the `DeleteRecords` API (key 21), versions 0-2."""

    api_key: ClassVar[int] = 21
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    topics: Annotated[tuple[DeleteRecordsTopicResult, ...], Array(DeleteRecordsTopicResult, "0+")] = ()
