"""The request and the response of the TxnOffsetCommit API (key 28).

Source: TxnOffsetCommitRequest.json and TxnOffsetCommitResponse.json, Apache Kafka 4.3.
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
class TxnOffsetCommitRequestPartition(Struct):
    """One entry of `partitions` of `TxnOffsetCommitRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    committed_offset: Annotated[int, Int64("0+")] = 0
    committed_leader_epoch: Annotated[int, Int32("2+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class TxnOffsetCommitRequestTopic(Struct):
    """One entry of `topics` of `TxnOffsetCommitRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[TxnOffsetCommitRequestPartition, ...], Array(TxnOffsetCommitRequestPartition, "0+")
    ] = ()


@message
class TxnOffsetCommitRequest(ApiMessage):
    """The request of the `TxnOffsetCommit` API (key 28), versions 0-5."""

    api_key: ClassVar[int] = 28
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    transactional_id: Annotated[str, String("0+")] = ""
    group_id: Annotated[str, String("0+")] = ""
    producer_id: Annotated[int, Int64("0+")] = 0
    producer_epoch: Annotated[int, Int16("0+")] = 0
    generation_id: Annotated[int, Int32("3+")] = -1
    member_id: Annotated[str, String("3+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None
    topics: Annotated[tuple[TxnOffsetCommitRequestTopic, ...], Array(TxnOffsetCommitRequestTopic, "0+")] = ()


@message
class TxnOffsetCommitResponsePartition(Struct):
    """One entry of `partitions` of `TxnOffsetCommitResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0


@message
class TxnOffsetCommitResponseTopic(Struct):
    """One entry of `topics` of `TxnOffsetCommitResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[TxnOffsetCommitResponsePartition, ...], Array(TxnOffsetCommitResponsePartition, "0+")
    ] = ()


@message
class TxnOffsetCommitResponse(ApiMessage):
    """The response of the `TxnOffsetCommit` API (key 28), versions 0-5."""

    api_key: ClassVar[int] = 28
    valid_versions: ClassVar[Versions] = versions("0-5")
    flexible_versions: ClassVar[Versions] = versions("3+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    topics: Annotated[
        tuple[TxnOffsetCommitResponseTopic, ...], Array(TxnOffsetCommitResponseTopic, "0+")
    ] = ()
