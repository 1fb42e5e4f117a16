"""The metadata of a segment in remote storage, and its states.

    COPY_SEGMENT_STARTED -> COPY_SEGMENT_FINISHED -> DELETE_SEGMENT_STARTED -> DELETE_SEGMENT_FINISHED
             `----------------------------------------------^  (an unfinished copy)

Source: KIP-405, KIP-917 (custom metadata); RemoteLogSegmentMetadata and -State of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition, uuid_text
from tidelog.storage.leader_epoch import EpochEntry


class TopicIdPartition(NamedTuple):
    """A partition of a topic with its topic id: a re-created topic has another id."""

    topic_id: UUID
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition with the topic's name only."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{uuid_text(self.topic_id)}:{self.topic}-{self.partition}"


class RemoteLogSegmentId(NamedTuple):
    """The id of one attempt to copy a segment; each attempt has its own `id`."""

    topic_id_partition: TopicIdPartition
    id: UUID

    def __str__(self) -> str:
        return f"{self.topic_id_partition}/{uuid_text(self.id)}"


class RemoteLogSegmentState(IntEnum):
    """The state of a segment; the values are those of the records."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3

    def may_become(self, state: RemoteLogSegmentState) -> bool:
        """Return whether `state` may follow this state; the same state is no change and always allowed."""
        return state is self or state in _LEGAL[self]


_STARTED, _FINISHED, _DELETING, _DELETED = RemoteLogSegmentState
_LEGAL: Final = {
    _STARTED: (_FINISHED, _DELETING),
    _FINISHED: (_DELETING,),
    _DELETING: (_DELETED,),
    _DELETED: (),
}


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """One segment in remote storage: offsets [`start_offset`, `end_offset`], both inclusive.

    Bounds: `segment_leader_epochs` is not empty; its epochs and offsets increase.
    """

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: Offset
    end_offset: Offset
    max_timestamp_ms: int
    broker_id: BrokerId
    event_timestamp_ms: int
    segment_size_bytes: int
    segment_leader_epochs: tuple[EpochEntry, ...]
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    custom_metadata: bytes | None = None
    """The storage manager's own data; at most remote.log.metadata.custom.metadata.max.bytes."""
    is_txn_index_empty: bool = False
    """True only if the segment certainly contains no aborted transaction (KAFKA-16780)."""

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition of the segment."""
        return self.remote_log_segment_id.topic_id_partition


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataUpdate:
    """A change of a segment's state; never to COPY_SEGMENT_STARTED."""

    remote_log_segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    broker_id: BrokerId
    custom_metadata: bytes | None = None


class RemotePartitionDeleteState(IntEnum):
    """The state of the deletion of a partition's remote data; the values are those of the records."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


@dataclass(frozen=True, slots=True)
class RemotePartitionDeleteMetadata:
    """A step of the deletion of all remote data of one partition."""

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: BrokerId
