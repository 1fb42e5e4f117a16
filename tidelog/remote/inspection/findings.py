"""The possible findings about remote storage, and what each of them means."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Self
from uuid import UUID

from tidelog.protocol.ids import Offset, TopicPartition, uuid_text
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


class Severity(Enum):
    """The severity of a finding; notes do not count for the exit status."""

    LOSS = "records that cannot be read, or will not be"
    DAMAGE = "damage that readers work around, or that causes wrong results"
    LEFTOVER = "unused data that is still stored"
    NOTE = "unusual but legal"


class Kind(Enum):
    """The kind of a finding: its severity and its meaning."""

    GAP = Severity.LOSS, "no segment of the log contains these offsets: they cannot be read"
    GAP_AHEAD = (
        Severity.LOSS,
        "not in remote storage although later offsets are: lost when local segments are deleted",
    )
    UNKNOWN_EPOCH = Severity.LOSS, "the leader does not know the leader epoch of these offsets: unreadable"
    MISSING_OBJECT = Severity.LOSS, "an object that the metadata requires is missing"
    WRONG_SIZE = Severity.LOSS, "an object does not have its original size"
    BAD_MANIFEST = Severity.LOSS, "a segment cannot be read without its manifest"
    DAMAGED_OBJECT = Severity.LOSS, "stored bytes are not those that were written"
    BAD_BATCH = Severity.LOSS, "the segment cannot be read from this byte"
    WRONG_OFFSETS = Severity.LOSS, "the segment's batches do not have the offsets in its metadata"
    WRONG_EPOCH = Severity.DAMAGE, "batches have other leader epochs than the metadata"
    WRONG_TIMESTAMP = (
        Severity.DAMAGE,
        "records are newer than in the metadata: they may be deleted too early",
    )
    BAD_INDEX = Severity.DAMAGE, "look-ups in this index fail or return a wrong position"
    BAD_TRANSACTION_INDEX = Severity.DAMAGE, "read_committed returns records of aborted transactions"
    BAD_PRODUCER_SNAPSHOT = (
        Severity.DAMAGE,
        "a follower that starts after the segment cannot load its producers",
    )
    BAD_LEADER_EPOCHS = Severity.DAMAGE, "a follower that starts after the segment cannot load its epochs"
    DANGLING_COPY = Severity.LEFTOVER, "a copy that was started and not finished"
    UNFINISHED_DELETION = Severity.LEFTOVER, "a deletion that was started and not finished"
    UNFINISHED_PARTITION_DELETION = Severity.LEFTOVER, "the deletion of a partition was not finished"
    ABANDONED_PARTITION = (
        Severity.LEFTOVER,
        "the topic does not exist, and its segments are not being deleted",
    )
    UNREACHABLE = Severity.LEFTOVER, "its epochs or offsets are not in the log: it is never read"
    ORPHAN = Severity.LEFTOVER, "an object without metadata"
    UNFINISHED_OBJECTS = Severity.LEFTOVER, "objects without a manifest: a copy or a deletion stopped halfway"
    OVERLAP = Severity.NOTE, "contained in several segments: readers use the copy that was finished last"
    BELOW_START = Severity.NOTE, "completely below the log start: waiting for its deletion"
    ILLEGAL_RECORD = Severity.NOTE, "a metadata record that does not follow the earlier ones; it is ignored"
    UNREADABLE_RECORD = Severity.NOTE, "a metadata record that cannot be decoded; it is ignored"
    LOST_HISTORY = Severity.NOTE, "old records of the metadata topic were deleted: segments may be missing"
    DISAGREEMENT = Severity.NOTE, "the leader's highest remote offset differs from its metadata"
    FOREIGN_OBJECT = Severity.NOTE, "has the key prefix, but not the name of a segment's object"

    @property
    def severity(self) -> Severity:
        """The severity."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """The meaning in one line."""
        return self.value[1]


class Finding(NamedTuple):
    """One finding; `place` is its location, such as offsets, a segment, an object or a byte of an object."""

    kind: Kind
    partition: TopicPartition | None
    place: str
    detail: str = ""
    segment: UUID | None = None

    @classmethod
    def of_segment(
        cls, kind: Kind, metadata: RemoteLogSegmentMetadata, place: str = "", detail: str = ""
    ) -> Self:
        """Return a finding about one segment; without a `place`, the place is the segment's name."""
        return cls(
            kind,
            metadata.topic_id_partition.topic_partition,
            place or segment_name(metadata),
            detail,
            metadata.remote_log_segment_id.id,
        )

    def __str__(self) -> str:
        name = "" if self.partition is None else f"{self.partition} "
        detail = f" ({self.detail})" if self.detail else ""
        kind = self.kind
        head = f"{kind.severity.name} {kind.name.lower().replace('_', '-')}"
        return f"{head}: {name}{self.place}: {kind.meaning}{detail}"


BROKEN_OBJECTS: Final = frozenset({Kind.MISSING_OBJECT, Kind.WRONG_SIZE, Kind.BAD_MANIFEST})
"""A segment with one of these findings is not read by the deep check."""

DEEP: Final = frozenset(
    {
        Kind.DAMAGED_OBJECT,
        Kind.BAD_BATCH,
        Kind.WRONG_OFFSETS,
        Kind.WRONG_EPOCH,
        Kind.WRONG_TIMESTAMP,
        Kind.BAD_INDEX,
        Kind.BAD_TRANSACTION_INDEX,
        Kind.BAD_PRODUCER_SNAPSHOT,
        Kind.BAD_LEADER_EPOCHS,
    }
)
"""Findings of the deep check only."""


def offsets_text(start_offset: Offset, last_offset: Offset) -> str:
    """Return a text for the offsets from `start_offset` to `last_offset`, both inclusive."""
    if start_offset == last_offset:
        return f"offset {start_offset}"
    return f"offsets {start_offset}-{last_offset}"


def segment_name(metadata: RemoteLogSegmentMetadata) -> str:
    """Return the name of a segment in findings: its offsets, both inclusive, and its id."""
    segment_id = uuid_text(metadata.remote_log_segment_id.id)
    return f"segment {metadata.start_offset}-{metadata.end_offset} {segment_id}"
