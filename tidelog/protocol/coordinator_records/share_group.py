"""The records of share groups in `__consumer_offsets` (KIP-932).

Source: the files ShareGroup*.json of Apache Kafka 4.3's group coordinator.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Int8,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class ShareGroupMemberMetadataKey(Message):
    """`ShareGroupMemberMetadataKey` (record type 10)."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class ShareGroupMemberMetadataValue(Message):
    """`ShareGroupMemberMetadataValue`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    subscribed_topic_names: Annotated[tuple[str, ...], Array(String, "0+")] = ()


@message
class ShareGroupMetadataKey(Message):
    """`ShareGroupMetadataKey` (record type 11)."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class ShareGroupMetadataValue(Message):
    """`ShareGroupMetadataValue`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    epoch: Annotated[int, Int32("0+")] = 0
    metadata_hash: Annotated[int, Int64("0+")] = 0


@message
class ShareGroupTargetAssignmentMetadataKey(Message):
    """`ShareGroupTargetAssignmentMetadataKey` (record type 12)."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class ShareGroupTargetAssignmentMetadataValue(Message):
    """`ShareGroupTargetAssignmentMetadataValue`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    assignment_epoch: Annotated[int, Int32("0+")] = 0
    assignment_timestamp: Annotated[int, Int64("0+", tag=0, tagged="0+")] = 0


@message
class ShareGroupTargetAssignmentMemberKey(Message):
    """`ShareGroupTargetAssignmentMemberKey` (record type 13)."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class ShareTopicPartitions(Struct):
    """Partitions of one topic, in the target and in the current assignment of a member."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class ShareGroupTargetAssignmentMemberValue(Message):
    """`ShareGroupTargetAssignmentMemberValue`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topic_partitions: Annotated[tuple[ShareTopicPartitions, ...], Array(ShareTopicPartitions, "0+")] = ()


@message
class ShareGroupCurrentMemberAssignmentKey(Message):
    """`ShareGroupCurrentMemberAssignmentKey` (record type 14)."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""
    member_id: Annotated[str, String("0")] = ""


@message
class ShareGroupCurrentMemberAssignmentValue(Message):
    """`ShareGroupCurrentMemberAssignmentValue`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    member_epoch: Annotated[int, Int32("0+")] = 0
    previous_member_epoch: Annotated[int, Int32("0+")] = 0
    state: Annotated[int, Int8("0+")] = 0
    assigned_partitions: Annotated[tuple[ShareTopicPartitions, ...], Array(ShareTopicPartitions, "0+")] = ()


@message
class ShareGroupStatePartitionMetadataKey(Message):
    """`ShareGroupStatePartitionMetadataKey` (record type 15)."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("none")

    group_id: Annotated[str, String("0")] = ""


@message
class TopicPartitionsInfo(Struct):
    """One entry of `initializing_topics` and `initialized_topics`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@message
class TopicInfo(Struct):
    """One entry of `deleting_topics`."""

    topic_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    topic_name: Annotated[str, String("0+")] = ""


@message
class ShareGroupStatePartitionMetadataValue(Message):
    """`ShareGroupStatePartitionMetadataValue`, version 0."""

    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    initializing_topics: Annotated[tuple[TopicPartitionsInfo, ...], Array(TopicPartitionsInfo, "0+")] = ()
    initialized_topics: Annotated[tuple[TopicPartitionsInfo, ...], Array(TopicPartitionsInfo, "0+")] = ()
    deleting_topics: Annotated[tuple[TopicInfo, ...], Array(TopicInfo, "0+")] = ()
