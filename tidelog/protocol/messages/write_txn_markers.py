"""The request and the response of the WriteTxnMarkers API (key 27).

Source: WriteTxnMarkersRequest.json and WriteTxnMarkersResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Int8,
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
class WritableTxnMarkerTopic(Struct):
    """One entry of `topics` of `WriteTxnMarkersRequest`."""

    name: Annotated[str, String("0+")] = ""
    partition_indexes: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class WritableTxnMarker(Struct):
    """One entry of `markers` of `WriteTxnMarkersRequest`."""

    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    transaction_result: Annotated[bool, Bool("0+")] = False
    topics: Annotated[tuple[WritableTxnMarkerTopic, ...], Array(WritableTxnMarkerTopic, "0+")] = ()
    coordinator_epoch: Annotated[int, Int32("0+")] = 0
    transaction_version: Annotated[int, Int8("2+", ignorable=True)] = 0


@message
class WriteTxnMarkersRequest(ApiMessage):
    """The request of the `WriteTxnMarkers` API (key 27), versions 1-2."""

    api_key: ClassVar[int] = 27
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("1+")

    markers: Annotated[tuple[WritableTxnMarker, ...], Array(WritableTxnMarker, "0+")] = ()


@message
class WritableTxnMarkerPartitionResult(Struct):
    """One entry of `partitions` of `WriteTxnMarkersResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0


@message
class WritableTxnMarkerTopicResult(Struct):
    """One entry of `topics` of `WriteTxnMarkersResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[WritableTxnMarkerPartitionResult, ...], Array(WritableTxnMarkerPartitionResult, "0+")
    ] = ()


@message
class WritableTxnMarkerResult(Struct):
    """One entry of `markers` of `WriteTxnMarkersResponse`."""

    producer_id: Annotated[int, Int64("0+")] = 0
    topics: Annotated[
        tuple[WritableTxnMarkerTopicResult, ...], Array(WritableTxnMarkerTopicResult, "0+")
    ] = ()


@message
class WriteTxnMarkersResponse(ApiMessage):
    """The response of the `WriteTxnMarkers` API (key 27), versions 1-2."""

    api_key: ClassVar[int] = 27
    valid_versions: ClassVar[Versions] = versions("1-2")
    flexible_versions: ClassVar[Versions] = versions("1+")

    markers: Annotated[tuple[WritableTxnMarkerResult, ...], Array(WritableTxnMarkerResult, "0+")] = ()
