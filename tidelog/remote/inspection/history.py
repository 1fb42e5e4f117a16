"""The records of `__remote_log_metadata` with their history.

In addition to the present metadata (`tidelog.remote.metadata.cache`), it keeps which segments have existed,
and which records did not follow the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.cache import Outcome, RemoteLogMetadataCache
from tidelog.remote.metadata.record_codec import decode_event
from tidelog.remote.metadata.store import RemoteLogEvent, partition_of
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class RecordPlace(NamedTuple):
    """The position of a record in the metadata topic."""

    metadata_partition: int
    offset: Offset

    def __str__(self) -> str:
        return f"metadata partition {self.metadata_partition}, offset {self.offset}"


class FailedCopies(NamedTuple):
    """Consecutive failed attempts to copy a segment, without a later success."""

    start_offset: Offset
    end_offset: Offset
    attempts: int


@dataclass(slots=True)
class PartitionHistory:
    """One partition; `deleted` are the ids of deleted segments, `illegal` the records that were ignored.

    `cache` is its present metadata; `deletion` is the last record of an unfinished deletion of the partition.
    """

    cache: RemoteLogMetadataCache
    deleted: set[UUID] = field(default_factory=set)
    illegal: list[tuple[RecordPlace, RemoteLogEvent]] = field(default_factory=list)
    deletion: RemotePartitionDeleteMetadata | None = None
    failed: dict[Offset, FailedCopies] = field(default_factory=dict)
    """The failed copies by start offset."""

    @classmethod
    def empty(cls, partition: TopicIdPartition) -> PartitionHistory:
        """Return the history of `partition` without records."""
        return cls(RemoteLogMetadataCache(partition))

    def apply(self, event: RemoteLogEvent, place: RecordPlace) -> None:
        """Apply the next record of the partition."""
        if isinstance(event, RemotePartitionDeleteMetadata):
            self._apply_deletion(event)
            return
        segment_id = event.remote_log_segment_id.id
        if segment_id in self.deleted:
            if event.state is not _DELETED:
                self.illegal.append((place, event))
            return
        previous = self.cache.get(event.remote_log_segment_id)
        is_new = isinstance(event, RemoteLogSegmentMetadata)
        outcome = self.cache.add(event) if is_new else self.cache.update(event)  # type: ignore[arg-type]
        if outcome in (Outcome.ILLEGAL_MOVE, Outcome.UNKNOWN_SEGMENT):
            self.illegal.append((place, event))
            return
        if event.state is _DELETED:
            self.deleted.add(segment_id)
        if previous is not None and previous.state is _STARTED:
            self._on_copy_end(previous, event.state)

    def _on_copy_end(self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        start, end = segment.start_offset, segment.end_offset
        if state is _FINISHED:
            self.failed = {
                offset: copies for offset, copies in self.failed.items() if copies.end_offset > end
            }
        elif state is _DELETING:
            attempts = self.failed[start].attempts if start in self.failed else 0
            self.failed[start] = FailedCopies(start, end, attempts + 1)

    def _apply_deletion(self, event: RemotePartitionDeleteMetadata) -> None:
        if event.state is not RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            self.deletion = event
            return
        self.deleted.update(segment.remote_log_segment_id.id for segment in self.cache.segments())
        self.cache = RemoteLogMetadataCache(event.topic_id_partition)
        self.deletion = None


class MetadataHistory:
    """The history of every partition in the metadata topic."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[UUID, int], tuple[TopicIdPartition, PartitionHistory]] = {}
        self.unreadable: list[tuple[RecordPlace, str]] = []
        self.truncated: dict[int, Offset] = {}
        """Metadata partitions that do not begin with offset 0, with their first offsets."""

    def __iter__(self) -> Iterator[tuple[TopicIdPartition, PartitionHistory]]:
        return iter(self._partitions.values())

    def record(self, place: RecordPlace, value: bytes | None) -> None:
        """Apply the next record of a metadata partition."""
        try:
            event = decode_event(value or b"")
        except DecodeError as error:
            self.unreadable.append((place, str(error)))
            return
        self.of(partition_of(event)).apply(event, place)

    def of(self, partition: TopicIdPartition) -> PartitionHistory:
        """Return the history of one partition; it is empty if there are no records."""
        key = (partition.topic_id, partition.partition)
        entry = self._partitions.get(key)
        if entry is None:
            entry = self._partitions[key] = (partition, PartitionHistory.empty(partition))
        return entry[1]
