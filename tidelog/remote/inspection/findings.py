"""What can be wrong with the tier, and what each of it means."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.ids import TopicPartition


class Severity(Enum):
    """How bad it is; notes do not count as findings for an exit status."""

    LOSS = "records that cannot be read, or will not be"
    DAMAGE = "something that is read around, or that gives wrong answers"
    LEFTOVER = "bytes or records that are kept and needed by nobody"
    NOTE = "unusual but legal"


class Kind(Enum):
    """What was found: how bad it is, and what it means."""

    GAP = Severity.LOSS, "no segment of the log holds these offsets: they cannot be read"
    GAP_AHEAD = Severity.LOSS, "not in the tier although what is behind is: lost when local segments go"
    UNKNOWN_EPOCH = Severity.LOSS, "the leader does not know in which epoch these were written: unreadable"
    MISSING_OBJECT = Severity.LOSS, "the metadata counts on an object that is not there"
    WRONG_SIZE = Severity.LOSS, "an object does not have the size that it was written with"
    BAD_MANIFEST = Severity.LOSS, "without its manifest a segment cannot be read"
    DAMAGED_OBJECT = Severity.LOSS, "stored bytes are not what was written"
    BAD_BATCH = Severity.LOSS, "from this byte on the segment cannot be read"
    WRONG_OFFSETS = Severity.LOSS, "the segment's batches are not the offsets that its metadata promises"
    WRONG_EPOCH = Severity.DAMAGE, "batches are of other leader epochs than the metadata says"
    WRONG_TIMESTAMP = (
        Severity.DAMAGE,
        "records are newer than the metadata says: they may be deleted too early",
    )
    BAD_INDEX = Severity.DAMAGE, "look-ups by this index fail or lead to the wrong place"
    BAD_TRANSACTION_INDEX = Severity.DAMAGE, "read_committed shows records of aborted transactions"
    BAD_PRODUCER_SNAPSHOT = (
        Severity.DAMAGE,
        "a follower that starts behind the segment cannot know its producers",
    )
    BAD_LEADER_EPOCHS = Severity.DAMAGE, "a follower that starts behind the segment cannot know its epochs"
    DANGLING_COPY = Severity.LEFTOVER, "a copy that began and never ended"
    UNFINISHED_DELETION = Severity.LEFTOVER, "a deletion that began and never ended"
    UNFINISHED_PARTITION_DELETION = Severity.LEFTOVER, "the deletion of a partition never ended"
    ABANDONED_PARTITION = Severity.LEFTOVER, "the cluster has no such topic, and nobody deletes its segments"
    UNREACHABLE = Severity.LEFTOVER, "of epochs or offsets that the log does not have: nobody reads it"
    ORPHAN = Severity.LEFTOVER, "an object that no metadata names"
    UNFINISHED_OBJECTS = Severity.LEFTOVER, "objects without a manifest: a copy or a deletion stopped halfway"
    OVERLAP = Severity.NOTE, "held by several segments: readers get it once, from the copy that ended last"
    BELOW_START = Severity.NOTE, "wholly below the log start: waits for its deletion"
    ILLEGAL_RECORD = Severity.NOTE, "a metadata record that does not follow from those before; it is ignored"
    UNREADABLE_RECORD = Severity.NOTE, "a metadata record that nobody can decode; it is passed over"
    LOST_HISTORY = Severity.NOTE, "old records of the metadata topic are gone: segments may be forgotten"
    DISAGREEMENT = Severity.NOTE, "the leader counts on another end of the tier than its metadata gives"
    FOREIGN_OBJECT = Severity.NOTE, "under the key prefix, but not named as objects of segments are"

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """What it means, in a line."""
        return self.value[1]


class Finding(NamedTuple):
    """One thing that was found: `place` says where, as offsets, a segment, an object or a byte of one."""

    kind: Kind
    partition: TopicPartition | None
    place: str
    detail: str = ""
    segment: UUID | None = None

    def __str__(self) -> str:
        name = "" if self.partition is None else f"{self.partition} "
        detail = f" ({self.detail})" if self.detail else ""
        kind = self.kind
        head = f"{kind.severity.name} {kind.name.lower().replace('_', '-')}"
        return f"{head}: {name}{self.place}: {kind.meaning}{detail}"


BROKEN_OBJECTS: Final = frozenset({Kind.MISSING_OBJECT, Kind.WRONG_SIZE, Kind.BAD_MANIFEST})
"""A segment with one of these is not worth reading."""

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
"""What only reading every byte finds."""


def offsets_text(start: int, end: int) -> str:
    """Offsets of which `end` is the last."""
    return f"offset {start}" if start == end else f"offsets {start}-{end}"
