"""The request and the response of the AlterPartitionReassignments API (key 45).

Source: AlterPartitionReassignmentsRequest.json and AlterPartitionReassignmentsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class ReassignablePartition(Struct):
    """One entry of `partitions` of `AlterPartitionReassignmentsRequest`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    replicas: Annotated[tuple[int, ...] | None, Array(Int32, "0+", nullable="0+")] = None


@message
class ReassignableTopic(Struct):
    """One entry of `topics` of `AlterPartitionReassignmentsRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[ReassignablePartition, ...], Array(ReassignablePartition, "0+")] = ()


@message
class AlterPartitionReassignmentsRequest(ApiMessage):
    """The request of the `AlterPartitionReassignments` API (key 45), versions 0-1."""

    api_key: ClassVar[int] = 45
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    timeout_ms: Annotated[int, Int32("0+")] = 60000
    allow_replication_factor_change: Annotated[bool, Bool("1+")] = True
    topics: Annotated[tuple[ReassignableTopic, ...], Array(ReassignableTopic, "0+")] = ()


@message
class ReassignablePartitionResponse(Struct):
    """One entry of `partitions` of `AlterPartitionReassignmentsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""


@message
class ReassignableTopicResponse(Struct):
    """One entry of `responses` of `AlterPartitionReassignmentsResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[ReassignablePartitionResponse, ...], Array(ReassignablePartitionResponse, "0+")
    ] = ()


@message
class AlterPartitionReassignmentsResponse(ApiMessage):
    """The response of the `AlterPartitionReassignments` API (key 45), versions 0-1."""

    api_key: ClassVar[int] = 45
    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    allow_replication_factor_change: Annotated[bool, Bool("1+", ignorable=True)] = True
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    responses: Annotated[tuple[ReassignableTopicResponse, ...], Array(ReassignableTopicResponse, "0+")] = ()
