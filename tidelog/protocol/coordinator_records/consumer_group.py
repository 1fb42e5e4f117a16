"""The records of consumer groups (KIP-848) in `__consumer_offsets`.

Source: the ConsumerGroup*Key.json and ConsumerGroup*Value.json files of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    Message,
    Nested,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class ConsumerGroupMetadataKey(Message):
    """`ConsumerGroupMetadataKey` (record type 3), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class ConsumerGroupMetadataValue(Message):
    """`ConsumerGroupMetadataValue` (record type 3), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    epoch: Annotated[int, Int32("0+")] = 0
    metadata_hash: Annotated[int, Int64("0+", tag=0, tagged="0+")] = 0


@message
class ConsumerGroupPartitionMetadataKey(Message):
    """`ConsumerGroupPartitionMetadataKey` (record type 4), version 0; only read, or written as a tombstone."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class PartitionMetadata(Struct):
    """One entry of `partition_metadata` of `TopicMetadata`."""

    partition: Annotated[int, Int32("0+")] = 0
    racks: Annotated[tuple[str, ...], Array(String, "0+")] = ()


@message
class TopicMetadata(Struct):
    """One entry of `topics` of `ConsumerGroupPartitionMetadataValue`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    topic_name: Annotated[str, String("0+")] = ""
    num_partitions: Annotated[int, Int32("0+")] = 0
    partition_metadata: Annotated[tuple[PartitionMetadata, ...], Array(PartitionMetadata, "0+")] = ()


@message
class ConsumerGroupPartitionMetadataValue(Message):
    """`ConsumerGroupPartitionMetadataValue` (record type 4), version 0, of Kafka 3.7 to 4.0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topics: Annotated[tuple[TopicMetadata, ...], Array(TopicMetadata, "0+")] = ()


@message
class ConsumerGroupMemberMetadataKey(Message):
    """`ConsumerGroupMemberMetadataKey` (record type 5), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class ClassicProtocol(Struct):
    """One entry of `supported_protocols` of `ClassicMemberMetadata`."""

    name: Annotated[str, String("0+")] = ""
    metadata: Annotated[bytes, Bytes("0+")] = b""


@message
class ClassicMemberMetadata(Struct):
    """The struct `classic_member_metadata` of `ConsumerGroupMemberMetadataValue`."""

    session_timeout_ms: Annotated[int, Int32("0+")] = 0
    supported_protocols: Annotated[tuple[ClassicProtocol, ...], Array(ClassicProtocol, "0+")] = ()


@message
class ConsumerGroupMemberMetadataValue(Message):
    """`ConsumerGroupMemberMetadataValue` (record type 5), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    instance_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    subscribed_topic_names: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    subscribed_topic_regex: Annotated[str | None, String("0+", nullable="0+")] = ""
    rebalance_timeout_ms: Annotated[int, Int32("0+")] = -1
    server_assignor: Annotated[str | None, String("0+", nullable="0+")] = ""
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None,
        Nested(ClassicMemberMetadata, "0+", nullable="0+", tag=0, tagged="0+"),
    ] = ClassicMemberMetadata()


@message
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """`ConsumerGroupTargetAssignmentMetadataKey` (record type 6), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """`ConsumerGroupTargetAssignmentMetadataValue` (record type 6), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    assignment_epoch: Annotated[int, Int32("0+")] = 0
    assignment_timestamp: Annotated[int, Int64("0+", tag=0, tagged="0+", ignorable=True)] = 0


@message
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """`ConsumerGroupTargetAssignmentMemberKey` (record type 7), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class TargetTopicPartitions(Struct):
    """One entry of `topic_partitions` of `ConsumerGroupTargetAssignmentMemberValue`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """`ConsumerGroupTargetAssignmentMemberValue` (record type 7), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topic_partitions: Annotated[tuple[TargetTopicPartitions, ...], Array(TargetTopicPartitions, "0+")] = ()


@message
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """`ConsumerGroupCurrentMemberAssignmentKey` (record type 8), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class AssignedTopicPartitions(Struct):
    """One entry of the partitions of `ConsumerGroupCurrentMemberAssignmentValue`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()
    assignment_epochs: Annotated[
        tuple[int, ...] | None, Array(Int32, "0+", nullable="0+", tag=0, tagged="0+")
    ] = ()


@message
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """`ConsumerGroupCurrentMemberAssignmentValue` (record type 8), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    member_epoch: Annotated[int, Int32("0+")] = 0
    previous_member_epoch: Annotated[int, Int32("0+")] = 0
    state: Annotated[int, Int8("0+")] = 0
    assigned_partitions: Annotated[
        tuple[AssignedTopicPartitions, ...], Array(AssignedTopicPartitions, "0+")
    ] = ()
    partitions_pending_revocation: Annotated[
        tuple[AssignedTopicPartitions, ...], Array(AssignedTopicPartitions, "0+")
    ] = ()


@message
class ConsumerGroupRegularExpressionKey(Message):
    """`ConsumerGroupRegularExpressionKey` (record type 16), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    regular_expression: Annotated[str, String("0")] = ""


@message
class ConsumerGroupRegularExpressionValue(Message):
    """`ConsumerGroupRegularExpressionValue` (record type 16), version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topics: Annotated[tuple[str, ...], Array(String, "0+")] = ()
    version: Annotated[int, Int64("0+")] = 0
    timestamp: Annotated[int, Int64("0+")] = 0
