"""The request and the response of the ElectLeaders API (key 43).

Source: ElectLeadersRequest.json and ElectLeadersResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int8,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class TopicPartitions(Struct):
    """One entry of `topic_partitions` of `ElectLeadersRequest`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ElectLeadersRequest(ApiMessage):
    """The request of the `ElectLeaders` API (key 43), versions 0-2."""

    api_key: ClassVar[int] = 43
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    election_type: Annotated[int, Int8("1+")] = 0
    topic_partitions: Annotated[
        tuple[TopicPartitions, ...] | None, Array(TopicPartitions, "0+", nullable="0+")
    ] = ()
    timeout_ms: Annotated[int, Int32("0+")] = 60000


@message
class PartitionResult(Struct):
    """One entry of `partition_result` of `ElectLeadersResponse`."""

    partition_id: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class ReplicaElectionResult(Struct):
    """One entry of `replica_election_results` of `ElectLeadersResponse`."""

    topic: Annotated[str, String("0+")] = ""
    partition_result: Annotated[tuple[PartitionResult, ...], Array(PartitionResult, "0+")] = ()


@message
class ElectLeadersResponse(ApiMessage):
    """The response of the `ElectLeaders` API (key 43), versions 0-2."""

    api_key: ClassVar[int] = 43
    valid_versions: ClassVar[Versions] = versions("0-2")
    flexible_versions: ClassVar[Versions] = versions("2+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("1+")] = 0
    replica_election_results: Annotated[
        tuple[ReplicaElectionResult, ...], Array(ReplicaElectionResult, "0+")
    ] = ()
