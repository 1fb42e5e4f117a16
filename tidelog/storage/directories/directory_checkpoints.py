"""The offset checkpoints of one log directory: where its logs start, are durable, replicated and compacted.

Each file is written atomically, when an offset has changed. A partition whose files are damaged keeps its
lines, so that nothing is lost when the files are restored. A log that is moved to another directory keeps its
lines until its old files are removed, and gets lines in the other directory before it is used there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import partial
from threading import Lock
from typing import NamedTuple

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.directories.directory_moves import DirectoryMoves
from tidelog.storage.disk.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from tidelog.storage.disk.errors import CorruptCheckpoint
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)


class CheckpointKind(Enum):
    """The offset checkpoints of a log directory."""

    RECOVERY_POINT = "recovery point"
    HIGH_WATERMARK = "high watermark"
    LOG_START_OFFSET = "log start offset"
    FIRST_DIRTY_OFFSET = "first dirty offset"


class DirectoryCheckpoints:
    """The checkpoint files of a log directory.

    `logs`, `damaged` and `moves` are the directory's own; each write uses their current contents.
    Errors of writes: OSError, StorageFailure.
    """

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        logs: Mapping[TopicPartition, PartitionLog],
        damaged: Collection[TopicPartition],
        moves: DirectoryMoves,
    ) -> None:
        self._logs = logs
        self._moves = moves
        self._damaged = damaged
        self._checkpoints = {
            kind: _Checkpoint(fs, f"{path}/{file_name}") for kind, (file_name, _) in _CONTENTS.items()
        }

    def read(self) -> None:
        """Read the files; a damaged one is reported and treated as empty, as in Kafka."""
        for checkpoint in self._checkpoints.values():
            checkpoint.read()

    def offset(self, kind: CheckpointKind, topic_partition: TopicPartition) -> Offset:
        """Return the last written offset of the partition; 0 if there is none."""
        return self._checkpoints[kind].latest_offsets.get(topic_partition, 0)

    def first_dirty_offset(self, topic_partition: TopicPartition) -> Offset | None:
        """Return where compaction of the partition continues; None if it was never compacted."""
        return self._checkpoints[CheckpointKind.FIRST_DIRTY_OFFSET].latest_offsets.get(topic_partition)

    def write(self, kind: CheckpointKind) -> None:
        """Write one file, if its contents have changed."""
        self._checkpoints[kind].write(self._offsets(kind))

    def write_log_start(self, topic_partition: TopicPartition, log_start_offset: Offset) -> None:
        """Write the log start offsets, with the given one even if the file would not contain it otherwise."""
        kind = CheckpointKind.LOG_START_OFFSET
        self._checkpoints[kind].write({**self._offsets(kind), topic_partition: log_start_offset})

    def planned_write(self, kind: CheckpointKind) -> Callable[[], None] | None:
        """Return the write of one file, for any thread; None if nothing has changed."""
        return self._checkpoints[kind].planned_write(self._offsets(kind))

    def planned_forget(self, topic_partitions: Iterable[TopicPartition]) -> list[Callable[[], None]]:
        """Return the writes that remove the lines of partitions from the files, for any thread."""
        removed = frozenset(topic_partitions)
        planned = (checkpoint.planned_forget(removed) for checkpoint in self._checkpoints.values())
        return [write for write in planned if write is not None]

    def _offsets(self, kind: CheckpointKind) -> dict[TopicPartition, Offset]:
        kept = self._checkpoints[kind].latest_offsets
        offsets = {key: kept[key] for key in (*self._damaged, *self._moves.departed) if key in kept}
        _, offset_of = _CONTENTS[kind]
        for topic_partition, log in (*self._logs.items(), *self._moves.arriving.items()):
            offset = offset_of(log)
            if offset is not None:
                offsets[topic_partition] = offset
        return offsets


def _recovery_point(log: PartitionLog) -> Offset | None:
    return log.durability.recovery_point


def _high_watermark(log: PartitionLog) -> Offset | None:
    return log.high_watermark


def _log_start_offset(log: PartitionLog) -> Offset | None:
    """Return the log start of a log that is tiered or starts above its first segment, None for others."""
    # A log whose truncation was interrupted may have no segment.
    is_known = len(log.segments) > 0 and log.log_start_offset <= log.segments.first.base_offset
    is_kept = log.remote_log_enabled or not is_known
    return log.log_start_offset if is_kept else None


def _first_dirty_offset(log: PartitionLog) -> Offset | None:
    return log.first_dirty_offset


_CONTENTS = {
    CheckpointKind.RECOVERY_POINT: (RECOVERY_POINT_CHECKPOINT, _recovery_point),
    CheckpointKind.HIGH_WATERMARK: (HIGH_WATERMARK_CHECKPOINT, _high_watermark),
    CheckpointKind.LOG_START_OFFSET: (LOG_START_OFFSET_CHECKPOINT, _log_start_offset),
    CheckpointKind.FIRST_DIRTY_OFFSET: (CLEANER_OFFSET_CHECKPOINT, _first_dirty_offset),
}
"""By kind: the file's name, and the offset of a log in it; None for a log that has no line there."""


class _Checkpoint:
    """An offset checkpoint that is written only if its contents change.

    Each planned write writes the latest state, so that many planned writes keep one state in memory.
    Invariant: a state never replaces a later one in the file, also if a thread writes it late.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._file = OffsetCheckpoint(fs, path)
        self._lock = Lock()
        self._latest = _State(0, {})
        self._number_in_file = 0

    @property
    def latest_offsets(self) -> Mapping[TopicPartition, Offset]:
        """The latest state; it is in the file, or a thread is going to write it."""
        return self._latest.offsets

    def read(self) -> None:
        """Read the file; a damaged one is reported and treated as empty, as in Kafka."""
        try:
            offsets = self._file.read()
        except CorruptCheckpoint as damage:
            _log.error("%s; its offsets start from 0", damage)
            offsets = {}
        self._latest = _State(self._number_in_file, offsets)

    def write(self, offsets: dict[TopicPartition, Offset]) -> None:
        """Replace the file if it does not contain `offsets`; wait for a thread that is writing it."""
        write = self.planned_write(offsets)
        if write is not None:
            write()

    def planned_write(self, offsets: Mapping[TopicPartition, Offset]) -> Callable[[], None] | None:
        """Return the write, for any thread; None if nothing has changed. `offsets` must not change later.

        A state that could not be written before, because no descriptor was available, is written too.
        """
        if offsets != self.latest_offsets:
            self._latest = _State(self._latest.number + 1, offsets)
        return self._pending_write()

    def planned_forget(self, topic_partitions: frozenset[TopicPartition]) -> Callable[[], None] | None:
        """Return the write that removes lines, for any thread; None if the file has none of them."""
        if self.latest_offsets.keys().isdisjoint(topic_partitions):
            # The file may have their lines until the latest state is written.
            return self._pending_write()
        return self.planned_write(
            {key: value for key, value in self.latest_offsets.items() if key not in topic_partitions}
        )

    def _pending_write(self) -> Callable[[], None] | None:
        """Return the write of the latest state; None if it is in the file."""
        number = self._latest.number
        return None if number == self._number_in_file else partial(self._put, number)

    def _put(self, number: int) -> None:
        """Write the latest state, unless the file contains the state `number` or a later one."""
        with self._lock:
            if number > self._number_in_file:
                latest = self._latest
                self._file.write(latest.offsets)
                self._number_in_file = latest.number


class _State(NamedTuple):
    """The contents of a checkpoint, and how many states came before."""

    number: int
    offsets: Mapping[TopicPartition, Offset]
