"""The request and the response of the OffsetForLeaderEpoch API (key 23).

Source: OffsetForLeaderEpochRequest.json and OffsetForLeaderEpochResponse.json, Apache Kafka 4.3.
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
class OffsetForLeaderPartition(Struct):
    """One entry of `partitions` of `OffsetForLeaderEpochRequest`."""

    partition: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("2+", ignorable=True)] = -1
    leader_epoch: Annotated[int, Int32("0+")] = 0


@message
class OffsetForLeaderTopic(Struct):
    """One entry of `topics` of `OffsetForLeaderEpochRequest`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[OffsetForLeaderPartition, ...], Array(OffsetForLeaderPartition, "0+")] = ()


@message
class OffsetForLeaderEpochRequest(ApiMessage):
    """The request of the `OffsetForLeaderEpoch` API (key 23), versions 2-4."""

    api_key: ClassVar[int] = 23
    valid_versions: ClassVar[Versions] = versions("2-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    replica_id: Annotated[int, Int32("3+", ignorable=True)] = -2
    topics: Annotated[tuple[OffsetForLeaderTopic, ...], Array(OffsetForLeaderTopic, "0+")] = ()


@message
class EpochEndOffset(Struct):
    """One entry of `partitions` of `OffsetForLeaderEpochResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    partition: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("1+", ignorable=True)] = -1
    end_offset: Annotated[int, Int64("0+")] = -1


@message
class OffsetForLeaderTopicResult(Struct):
    """One entry of `topics` of `OffsetForLeaderEpochResponse`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[EpochEndOffset, ...], Array(EpochEndOffset, "0+")] = ()


@message
class OffsetForLeaderEpochResponse(ApiMessage):
    """The response of the `OffsetForLeaderEpoch` API (key 23), versions 2-4."""

    api_key: ClassVar[int] = 23
    valid_versions: ClassVar[Versions] = versions("2-4")
    flexible_versions: ClassVar[Versions] = versions("4+")

    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    topics: Annotated[tuple[OffsetForLeaderTopicResult, ...], Array(OffsetForLeaderTopicResult, "0+")] = ()
