"""The records of streams groups in `__consumer_offsets` (KIP-1071).

Source: the files StreamsGroup*.json of Apache Kafka 4.3's group coordinator.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from tidelog.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    String,
    Struct,
    UInt16,
    Versions,
    message,
    versions,
)


@message
class StreamsGroupMetadataKey(Message):
    """`StreamsGroupMetadataKey` (record type 17), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class LastAssignmentConfig(Struct):
    """One entry of `last_assignment_configs` of `StreamsGroupMetadataValue`."""

    key: Annotated[str, String("0+")] = ""
    value: Annotated[str, String("0+")] = ""


@message
class StreamsGroupMetadataValue(Message):
    """`StreamsGroupMetadataValue` (record type 17), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    epoch: Annotated[int, Int32("0+")] = 0
    metadata_hash: Annotated[int, Int64("0+")] = 0
    validated_topology_epoch: Annotated[int, Int32("0+", tag=0, tagged="0+")] = -1
    last_assignment_configs: Annotated[
        tuple[LastAssignmentConfig, ...] | None,
        Array(LastAssignmentConfig, "0+", nullable="0+", tag=1, tagged="0+"),
    ] = ()


@message
class StreamsGroupMemberMetadataKey(Message):
    """`StreamsGroupMemberMetadataKey` (record type 19), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class Endpoint(Struct):
    """The struct `user_endpoint` of `StreamsGroupMemberMetadataValue`."""

    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, UInt16("0+")] = 0


@message
class KeyValue(Struct):
    """One entry of `client_tags` of `StreamsGroupMemberMetadataValue`."""

    key: Annotated[str, String("0+")] = ""
    value: Annotated[str, String("0+")] = ""


@message
class StreamsGroupMemberMetadataValue(Message):
    """`StreamsGroupMemberMetadataValue` (record type 19), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    instance_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    rebalance_timeout_ms: Annotated[int, Int32("0+")] = -1
    topology_epoch: Annotated[int, Int32("0+")] = 0
    process_id: Annotated[str, String("0+")] = ""
    user_endpoint: Annotated[Endpoint | None, Nested(Endpoint, "0+", nullable="0+")] = None
    client_tags: Annotated[tuple[KeyValue, ...], Array(KeyValue, "0+")] = ()


@message
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """`StreamsGroupTargetAssignmentMetadataKey` (record type 20), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """`StreamsGroupTargetAssignmentMetadataValue` (record type 20), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    assignment_epoch: Annotated[int, Int32("0+")] = 0
    assignment_timestamp: Annotated[int, Int64("0+", tag=0, tagged="0+", ignorable=True)] = 0


@message
class StreamsGroupTargetAssignmentMemberKey(Message):
    """`StreamsGroupTargetAssignmentMemberKey` (record type 21), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class TargetTaskIds(Struct):
    """One entry of `active_tasks` of `StreamsGroupTargetAssignmentMemberValue`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class StreamsGroupTargetAssignmentMemberValue(Message):
    """`StreamsGroupTargetAssignmentMemberValue` (record type 21), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    active_tasks: Annotated[tuple[TargetTaskIds, ...], Array(TargetTaskIds, "0+")] = ()
    standby_tasks: Annotated[tuple[TargetTaskIds, ...], Array(TargetTaskIds, "0+")] = ()
    warmup_tasks: Annotated[tuple[TargetTaskIds, ...], Array(TargetTaskIds, "0+")] = ()


@message
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """`StreamsGroupCurrentMemberAssignmentKey` (record type 22), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class CurrentTaskIds(Struct):
    """One entry of `active_tasks` of `StreamsGroupCurrentMemberAssignmentValue`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    assignment_epochs: Annotated[
        tuple[int, ...] | None, Array(Int32, "0+", nullable="0+", tag=0, tagged="0+")
    ] = ()


@message
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """`StreamsGroupCurrentMemberAssignmentValue` (record type 22), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    member_epoch: Annotated[int, Int32("0+")] = 0
    previous_member_epoch: Annotated[int, Int32("0+")] = 0
    state: Annotated[int, Int8("0+")] = 0
    active_tasks: Annotated[tuple[CurrentTaskIds, ...], Array(CurrentTaskIds, "0+")] = ()
    standby_tasks: Annotated[tuple[CurrentTaskIds, ...], Array(CurrentTaskIds, "0+")] = ()
    warmup_tasks: Annotated[tuple[CurrentTaskIds, ...], Array(CurrentTaskIds, "0+")] = ()
    active_tasks_pending_revocation: Annotated[tuple[CurrentTaskIds, ...], Array(CurrentTaskIds, "0+")] = ()
    standby_tasks_pending_revocation: Annotated[tuple[CurrentTaskIds, ...], Array(CurrentTaskIds, "0+")] = ()
    warmup_tasks_pending_revocation: Annotated[tuple[CurrentTaskIds, ...], Array(CurrentTaskIds, "0+")] = ()


@message
class StreamsGroupTopologyKey(Message):
    """`StreamsGroupTopologyKey` (record type 23), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class TopicConfig(Struct):
    """One entry of `topic_configs` of `TopicInfo`."""

    key: Annotated[str, String("0+")] = ""
    value: Annotated[str, String("0+")] = ""


@message
class TopicInfo(Struct):
    """One entry of `state_changelog_topics` of `Subtopology`."""

    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[int, Int32("0+")] = 0
    replication_factor: Annotated[int, Int16("0+")] = 0
    topic_configs: Annotated[tuple[TopicConfig, ...], Array(TopicConfig, "0+")] = ()


@message
class CopartitionGroup(Struct):
    """One entry of `copartition_groups` of `Subtopology`."""

    source_topics: Annotated[tuple[int, ...], Array(Int16, "0+")] = ()
    source_topic_regex: Annotated[tuple[int, ...], Array(Int16, "0+")] = ()
    repartition_source_topics: Annotated[tuple[int, ...], Array(Int16, "0+")] = ()


@message
class Subtopology(Struct):
    """One entry of `subtopologies` of `StreamsGroupTopologyValue`."""

    subtopology_id: Annotated[str, String("0+")] = ""
    source_topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    source_topic_regex: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    state_changelog_topics: Annotated[tuple[TopicInfo, ...], Array(TopicInfo, "0+")] = ()
    repartition_sink_topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    repartition_source_topics: Annotated[tuple[TopicInfo, ...], Array(TopicInfo, "0+")] = ()
    copartition_groups: Annotated[tuple[CopartitionGroup, ...], Array(CopartitionGroup, "0+")] = ()


@message
class StreamsGroupTopologyValue(Message):
    """`StreamsGroupTopologyValue` (record type 23), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    epoch: Annotated[int, Int32("0+")] = 0
    subtopologies: Annotated[tuple[Subtopology, ...], Array(Subtopology, "0+")] = ()
