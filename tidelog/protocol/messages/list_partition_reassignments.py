"""The request and the response of the ListPartitionReassignments API (key 46).

Source: ListPartitionReassignmentsRequest.json and ListPartitionReassignmentsResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Int16,
    Int32,
    String,
    Struct,
    Versions,
    message,
    versions,
)


@message
class ListPartitionReassignmentsTopics(Struct):
    """One entry of `topics` of `ListPartitionReassignmentsRequest`."""

    name: Annotated[str, String("0+")] = ""
    partition_indexes: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ListPartitionReassignmentsRequest(ApiMessage):
    """The request of the `ListPartitionReassignments` API (key 46), version 0."""

    api_key: ClassVar[int] = 46
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    timeout_ms: Annotated[int, Int32("0+")] = 60000
    topics: Annotated[
        tuple[ListPartitionReassignmentsTopics, ...] | None,
        Array(ListPartitionReassignmentsTopics, "0+", nullable="0+"),
    ] = None


@message
class OngoingPartitionReassignment(Struct):
    """One entry of `partitions` of `ListPartitionReassignmentsResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    replicas: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    adding_replicas: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    removing_replicas: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class OngoingTopicReassignment(Struct):
    """One entry of `topics` of `ListPartitionReassignmentsResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[
        tuple[OngoingPartitionReassignment, ...], Array(OngoingPartitionReassignment, "0+")
    ] = ()


@message
class ListPartitionReassignmentsResponse(ApiMessage):
    """The response of the `ListPartitionReassignments` API (key 46), version 0."""

    api_key: ClassVar[int] = 46
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    topics: Annotated[tuple[OngoingTopicReassignment, ...], Array(OngoingTopicReassignment, "0+")] = ()
