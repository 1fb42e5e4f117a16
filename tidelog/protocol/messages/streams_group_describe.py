"""The request and the response of the StreamsGroupDescribe API (key 89).

Source: StreamsGroupDescribeRequest.json and StreamsGroupDescribeResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    ApiMessage,
    Array,
    Bool,
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
class StreamsGroupDescribeRequest(ApiMessage):
    """The request of the `StreamsGroupDescribe` API (key 89), version 0."""

    api_key: ClassVar[int] = 89
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    group_ids: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    include_authorized_operations: Annotated[bool, Bool("0+")] = False


@message
class KeyValue(Struct):
    """One entry of `topic_configs` of `StreamsGroupDescribeResponse`."""

    key: Annotated[str, String("0+")] = ""
    value: Annotated[str, String("0+")] = ""


@message
class TopicInfo(Struct):
    """One entry of `state_changelog_topics` of `StreamsGroupDescribeResponse`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[int, Int32("0+")] = 0
    replication_factor: Annotated[int, Int16("0+")] = 0
    topic_configs: Annotated[tuple[KeyValue, ...], Array(KeyValue, "0+")] = ()


@message
class Subtopology(Struct):
    """One entry of `subtopologies` of `StreamsGroupDescribeResponse`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    source_topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    repartition_sink_topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    state_changelog_topics: Annotated[tuple[TopicInfo, ...], Array(TopicInfo, "0+")] = ()
    repartition_source_topics: Annotated[tuple[TopicInfo, ...], Array(TopicInfo, "0+")] = ()


@message
class Topology(Struct):
    """The struct `topology` of `StreamsGroupDescribeResponse`."""

    epoch: Annotated[int, Int32("0+")] = 0
    subtopologies: Annotated[tuple[Subtopology, ...] | None, Array(Subtopology, "0+", nullable="0+")] = None


@message
class Endpoint(Struct):
    """The struct `user_endpoint` of `StreamsGroupDescribeResponse`."""

    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


@message
class TaskOffset(Struct):
    """One entry of `task_offsets` of `StreamsGroupDescribeResponse`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    partition: Annotated[int, Int32("0+")] = 0
    offset: Annotated[int, Int64("0+")] = 0


@message
class TaskIds(Struct):
    """One entry of `active_tasks` of `StreamsGroupDescribeResponse`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class Assignment(Struct):
    """The struct `assignment` of `StreamsGroupDescribeResponse`."""

    active_tasks: Annotated[tuple[TaskIds, ...], Array(TaskIds, "0+")] = ()
    standby_tasks: Annotated[tuple[TaskIds, ...], Array(TaskIds, "0+")] = ()
    warmup_tasks: Annotated[tuple[TaskIds, ...], Array(TaskIds, "0+")] = ()


@message
class Member(Struct):
    """One entry of `members` of `StreamsGroupDescribeResponse`."""

    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    topology_epoch: Annotated[int, Int32("0+")] = 0
    process_id: Annotated[str, String("0+")] = ""
    user_endpoint: Annotated[Endpoint | None, Nested(Endpoint, "0+", nullable="0+")] = None
    client_tags: Annotated[tuple[KeyValue, ...], Array(KeyValue, "0+")] = ()
    task_offsets: Annotated[tuple[TaskOffset, ...], Array(TaskOffset, "0+")] = ()
    task_end_offsets: Annotated[tuple[TaskOffset, ...], Array(TaskOffset, "0+")] = ()
    assignment: Annotated[Assignment, Nested(Assignment, "0+")] = Assignment()
    target_assignment: Annotated[Assignment, Nested(Assignment, "0+")] = Assignment()
    is_classic: Annotated[bool, Bool("0+")] = False


@message
class DescribedGroup(Struct):
    """One entry of `groups` of `StreamsGroupDescribeResponse`."""

    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    group_id: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("0+")] = ""
    group_epoch: Annotated[int, Int32("0+")] = 0
    assignment_epoch: Annotated[int, Int32("0+")] = 0
    topology: Annotated[Topology | None, Nested(Topology, "0+", nullable="0+")] = None
    members: Annotated[tuple[Member, ...], Array(Member, "0+")] = ()
    authorized_operations: Annotated[int, Int32("0+")] = -2147483648


@message
class StreamsGroupDescribeResponse(ApiMessage):
    """The response of the `StreamsGroupDescribe` API (key 89), version 0."""

    api_key: ClassVar[int] = 89
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    groups: Annotated[tuple[DescribedGroup, ...], Array(DescribedGroup, "0+")] = ()
