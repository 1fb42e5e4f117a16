"""Records of `__remote_log_metadata`, and of snapshots of remote log metadata (KIP-405).

Source: RemoteLogSegmentMetadataRecord.json, RemoteLogSegmentMetadataUpdateRecord.json,
RemotePartitionDeleteMetadataRecord.json and RemoteLogSegmentMetadataSnapshotRecord.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    Array,
    Bool,
    Bytes,
    Int8,
    Int32,
    Int64,
    Nested,
    RemoteMetadataRecord,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class TopicIdPartitionEntry(Struct):
    """A partition with the id of its topic, which differs from that of a deleted topic of the same name."""

    name: Annotated[str, String("0+")] = ""
    id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    partition: Annotated[int, Int32("0+")] = 0


@message
class RemoteLogSegmentIdEntry(Struct):
    """The id of a remote log segment; every attempt to copy a segment has a new one."""

    topic_id_partition: Annotated[TopicIdPartitionEntry, Nested(TopicIdPartitionEntry, "0+")] = (
        TopicIdPartitionEntry()
    )
    id: Annotated[UUID, Uuid("0+")] = ZERO_UUID


@message
class SegmentLeaderEpochEntry(Struct):
    """A leader epoch and its start offset in a segment."""

    leader_epoch: Annotated[int, Int32("0+")] = 0
    offset: Annotated[int, Int64("0+")] = 0


@message
class RemoteLogSegmentMetadataRecord(RemoteMetadataRecord):
    """Record type 0, version 0: the copy of a segment begins."""

    record_type: ClassVar[int] = 0
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    remote_log_segment_id: Annotated[RemoteLogSegmentIdEntry, Nested(RemoteLogSegmentIdEntry, "0+")] = (
        RemoteLogSegmentIdEntry()
    )
    start_offset: Annotated[int, Int64("0+")] = 0
    end_offset: Annotated[int, Int64("0+")] = 0
    broker_id: Annotated[int, Int32("0+")] = 0
    max_timestamp_ms: Annotated[int, Int64("0+")] = 0
    event_timestamp_ms: Annotated[int, Int64("0+")] = 0
    segment_leader_epochs: Annotated[
        tuple[SegmentLeaderEpochEntry, ...], Array(SegmentLeaderEpochEntry, "0+")
    ] = ()
    segment_size_in_bytes: Annotated[int, Int32("0+")] = 0
    custom_metadata: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
    remote_log_segment_state: Annotated[int, Int8("0+")] = 0
    txn_index_empty: Annotated[bool, Bool("0+", tag=0, tagged="0+")] = False


@message
class RemoteLogSegmentMetadataUpdateRecord(RemoteMetadataRecord):
    """Record type 1, version 0: the state of a segment changes."""

    record_type: ClassVar[int] = 1
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    remote_log_segment_id: Annotated[RemoteLogSegmentIdEntry, Nested(RemoteLogSegmentIdEntry, "0+")] = (
        RemoteLogSegmentIdEntry()
    )
    broker_id: Annotated[int, Int32("0+")] = 0
    event_timestamp_ms: Annotated[int, Int64("0+")] = 0
    custom_metadata: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
    remote_log_segment_state: Annotated[int, Int8("0+")] = 0


@message
class RemotePartitionDeleteMetadataRecord(RemoteMetadataRecord):
    """Record type 2, version 0: the state of the deletion of a partition changes."""

    record_type: ClassVar[int] = 2
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    topic_id_partition: Annotated[TopicIdPartitionEntry, Nested(TopicIdPartitionEntry, "0+")] = (
        TopicIdPartitionEntry()
    )
    broker_id: Annotated[int, Int32("0+")] = 0
    event_timestamp_ms: Annotated[int, Int64("0+")] = 0
    remote_partition_delete_state: Annotated[int, Int8("0+")] = 0


@message
class RemoteLogSegmentMetadataSnapshotRecord(RemoteMetadataRecord):
    """Record type 3, version 0: a segment in a snapshot of its partition."""

    record_type: ClassVar[int] = 3
    valid_versions: ClassVar[Versions] = versions("0")
    flexible_versions: ClassVar[Versions] = versions("0+")

    segment_id: Annotated[UUID, Uuid("0+")] = ZERO_UUID
    start_offset: Annotated[int, Int64("0+")] = 0
    end_offset: Annotated[int, Int64("0+")] = 0
    broker_id: Annotated[int, Int32("0+")] = 0
    max_timestamp_ms: Annotated[int, Int64("0+")] = 0
    event_timestamp_ms: Annotated[int, Int64("0+")] = 0
    segment_leader_epochs: Annotated[
        tuple[SegmentLeaderEpochEntry, ...], Array(SegmentLeaderEpochEntry, "0+")
    ] = ()
    segment_size_in_bytes: Annotated[int, Int32("0+")] = 0
    custom_metadata: Annotated[bytes | None, Bytes("0+", nullable="0+")] = None
    remote_log_segment_state: Annotated[int, Int8("0+")] = 0
    txn_index_empty: Annotated[bool, Bool("0+", tag=0, tagged="0+")] = False
