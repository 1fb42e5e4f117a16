"""The request and the response of the StreamsGroupHeartbeat API (key 88).

Source: StreamsGroupHeartbeatRequest.json and StreamsGroupHeartbeatResponse.json, Apache Kafka 4.3.
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
    Nested,
    String,
    Struct,
    UInt16,
    Versions,
    message,
    versions,
)


@message
class KeyValue(Struct):
    """One entry of `topic_configs` of `StreamsGroupHeartbeatRequest`."""

    key: Annotated[str, String("0+")] = ""
    value: Annotated[str, String("0+")] = ""


@message
class TopicInfo(Struct):
    """One entry of `state_changelog_topics` of `StreamsGroupHeartbeatRequest`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[int, Int32("0+")] = 0
    replication_factor: Annotated[int, Int16("0+")] = 0
    topic_configs: Annotated[tuple[KeyValue, ...], Array(KeyValue, "0+")] = ()


@message
class CopartitionGroup(Struct):
    """One entry of `copartition_groups` of `StreamsGroupHeartbeatRequest`."""

    source_topics: Annotated[tuple[int, ...], Array(Int16, "0+")] = ()
    source_topic_regex: Annotated[tuple[int, ...], Array(Int16, "0+")] = ()
    repartition_source_topics: Annotated[tuple[int, ...], Array(Int16, "0+")] = ()


@message
class Subtopology(Struct):
    """One entry of `subtopologies` of `StreamsGroupHeartbeatRequest`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    source_topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    source_topic_regex: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    state_changelog_topics: Annotated[tuple[TopicInfo, ...], Array(TopicInfo, "0+")] = ()
    repartition_sink_topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    repartition_source_topics: Annotated[tuple[TopicInfo, ...], Array(TopicInfo, "0+")] = ()
    copartition_groups: Annotated[tuple[CopartitionGroup, ...], Array(CopartitionGroup, "0+")] = ()


@message
class Topology(Struct):
    """The struct `topology` of `StreamsGroupHeartbeatRequest`."""

    epoch: Annotated[int, Int32("0+")] = 0
    subtopologies: Annotated[tuple[Subtopology, ...], Array(Subtopology, "0+")] = ()


@message
class RequestTaskIds(Struct):
    """One entry of `active_tasks` of `StreamsGroupHeartbeatRequest`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class RequestEndpoint(Struct):
    """The struct `user_endpoint` of `StreamsGroupHeartbeatRequest`."""

    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


@message
class TaskOffset(Struct):
    """One entry of `task_offsets` of `StreamsGroupHeartbeatRequest`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    partition: Annotated[int, Int32("0+")] = 0
    offset: Annotated[int, Int64("0+")] = 0


@message
class StreamsGroupHeartbeatRequest(ApiMessage):
    """The request of the `StreamsGroupHeartbeat` API (key 88), version 0."""

    api_key: ClassVar[int] = 88
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    endpoint_information_epoch: Annotated[int, Int32("0+")] = 0
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rebalance_timeout_ms: Annotated[int, Int32("0+")] = -1
    topology: Annotated[Topology | None, Nested(Topology, "0+", nullable="0+")] = None
    active_tasks: Annotated[tuple[RequestTaskIds, ...] | None, Array(RequestTaskIds, "0+", nullable="0+")] = (
        None
    )
    standby_tasks: Annotated[
        tuple[RequestTaskIds, ...] | None, Array(RequestTaskIds, "0+", nullable="0+")
    ] = None
    warmup_tasks: Annotated[tuple[RequestTaskIds, ...] | None, Array(RequestTaskIds, "0+", nullable="0+")] = (
        None
    )
    process_id: Annotated[str | None, String("0+", nullable="0+")] = None
    user_endpoint: Annotated[RequestEndpoint | None, Nested(RequestEndpoint, "0+", nullable="0+")] = None
    client_tags: Annotated[tuple[KeyValue, ...] | None, Array(KeyValue, "0+", nullable="0+")] = None
    task_offsets: Annotated[tuple[TaskOffset, ...] | None, Array(TaskOffset, "0+", nullable="0+")] = None
    task_end_offsets: Annotated[tuple[TaskOffset, ...] | None, Array(TaskOffset, "0+", nullable="0+")] = None
    shutdown_application: Annotated[bool, Bool("0+")] = False


@message
class Status(Struct):
    """One entry of `status` of `StreamsGroupHeartbeatResponse`."""

    status_code: Annotated[int, Int8("0+")] = 0
    status_detail: Annotated[str, String("0+")] = ""


@message
class ResponseTaskIds(Struct):
    """One entry of `active_tasks` of `StreamsGroupHeartbeatResponse`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ResponseEndpoint(Struct):
    """The struct `user_endpoint` of `StreamsGroupHeartbeatResponse`."""

    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


@message
class TopicPartition(Struct):
    """One entry of `active_partitions` of `StreamsGroupHeartbeatResponse`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class EndpointToPartitions(Struct):
    """One entry of `partitions_by_user_endpoint` of `StreamsGroupHeartbeatResponse`."""

    user_endpoint: Annotated[ResponseEndpoint, Nested(ResponseEndpoint, "0+")] = ResponseEndpoint()
    active_partitions: Annotated[tuple[TopicPartition, ...], Array(TopicPartition, "0+")] = ()
    standby_partitions: Annotated[tuple[TopicPartition, ...], Array(TopicPartition, "0+")] = ()


@message
class StreamsGroupHeartbeatResponse(ApiMessage):
    """The response of the `StreamsGroupHeartbeat` API (key 88), version 0."""

    api_key: ClassVar[int] = 88
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    heartbeat_interval_ms: Annotated[int, Int32("0+")] = 0
    acceptable_recovery_lag: Annotated[int, Int32("0+")] = 0
    task_offset_interval_ms: Annotated[int, Int32("0+")] = 0
    status: Annotated[tuple[Status, ...] | None, Array(Status, "0+", nullable="0+")] = ()
    active_tasks: Annotated[
        tuple[ResponseTaskIds, ...] | None, Array(ResponseTaskIds, "0+", nullable="0+")
    ] = None
    standby_tasks: Annotated[
        tuple[ResponseTaskIds, ...] | None, Array(ResponseTaskIds, "0+", nullable="0+")
    ] = None
    warmup_tasks: Annotated[
        tuple[ResponseTaskIds, ...] | None, Array(ResponseTaskIds, "0+", nullable="0+")
    ] = None
    endpoint_information_epoch: Annotated[int, Int32("0+")] = 0
    partitions_by_user_endpoint: Annotated[
        tuple[EndpointToPartitions, ...] | None, Array(EndpointToPartitions, "0+", nullable="0+")
    ] = None
