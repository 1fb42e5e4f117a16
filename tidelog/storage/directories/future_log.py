"""The copy of one log in another log directory, which replaces the log when it has caught up (KIP-113).

The copy has the same files as the log with the same bytes, in `<topic>-<partition>.<id>-future`:

| part of the log | how it is copied |
|---|---|
| the records of every segment | in steps, also those of the active segment while it grows |
| the indexes of a sealed segment | when all its records are copied; then its files are synced |
| the indexes of the active segment | not at all: they are in memory, and written later |
| producer snapshots | as files, and synced |
| leader epochs | by `planned_checkpoint`, which makes the copy durable up to the recovery point |

Retention and truncation change the log meanwhile. The copy drops segments that the log no longer has. After
a truncation it starts from scratch, as its last bytes may differ.

`replace` ends the copy in one turn of the event loop: it copies the last bytes, renames the directory and
lets the log use it. A crash leaves one of these states:

| the directories | what is used |
|---|---|
| log, `-future` | the log; the copy starts from scratch |
| log, copy with the name of the log | the copy: the file REPLACEMENT_MARKER in it shows that it is newer |
| `-delete`, copy with the name of the log | the copy |

Threads: one thread at a time runs a step; the owner of the log calls all other methods. Errors: OSError,
StorageFailure; those of the log are a SourceFailure.
Source: LogManager.replaceCurrentWithFutureLog of Apache Kafka 4.3, which keeps a second log object instead.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.checkpoints import LeaderEpochCheckpoint, PartitionMetadataFile
from tidelog.storage.disk.files import File, FileSystem, parent_directory, write_atomically
from tidelog.storage.disk.log_files import (
    INDEX_SUFFIXES,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
)
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.observer import LogObserver
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment

COPY_BYTES_MAX: Final = 1 << 20
"""The default maximum number of bytes of one step."""
LAST_BYTES_MAX: Final = 256 << 10
"""The maximum number of bytes that `replace` copies on the event loop."""
REPLACEMENT_MARKER: Final = "replaces-log-in-other-directory"


class SourceFailure(Exception):
    """The log could not be read; `__cause__` is the error of its disk."""


class CopyStep(NamedTuple):
    """A part of the copy: `run` blocks, in any thread; then the owner of the log calls `on_done`."""

    size_bytes: int
    """The number of bytes of records in this step."""
    run: Callable[[], None]
    on_done: Callable[[], None]


class _DurableState(NamedTuple):
    """The state of the log when its copy was made durable; no other state may be current in `replace`."""

    generation: int
    recovery_point: Offset
    log_start_offset: Offset
    first_dirty_offset: Offset | None
    leader_epochs: tuple[EpochEntry, ...]
    topic_id: UUID | None


class FutureLog:
    """The copy of `log` in `directory`.

    Invariant: the copy has the first `_sizes[base]` bytes of the segment at `base`. All files of the segments
    below `_frontier` are complete and synced.
    """

    def __init__(self, log: PartitionLog, directory: str) -> None:
        self.log = log
        self.directory = directory
        self._fs: FileSystem = log.fs
        self._generation = -1
        self._sizes: dict[Offset, int] = {}
        self._frontier: Offset = 0
        self._snapshots: set[Offset] = set()
        self._open_file: tuple[Offset, File] | None = None
        self._durable_state: _DurableState | None = None

    # -- progress

    @property
    def size_bytes(self) -> int:
        """The number of bytes of records that have been copied."""
        return sum(self._sizes.values())

    @property
    def offset_lag(self) -> Offset:
        """The number of offsets from the end of the copy to the end of the log. I/O: a few preads."""
        log = self.log
        copied = [segment for segment in log.segments if self._sizes.get(segment.base_offset)]
        if not copied or self.is_outdated:
            return log.log_end_offset - log.local_log_start_offset
        last = copied[-1]
        following = log.segments.higher(last.base_offset)
        size_bytes = self._sizes[last.base_offset]
        if size_bytes >= last.size_bytes:
            return 0 if following is None else log.log_end_offset - following.base_offset
        _, offset = last.boundary_at_or_before(size_bytes, 0)
        return log.log_end_offset - max(offset, last.base_offset)

    @property
    def is_almost_complete(self) -> bool:
        """Whether at most LAST_BYTES_MAX of the active segment are not copied."""
        log = self.log
        active = log.segments.active
        return (
            not self.is_outdated
            and log.segments.from_offset(self._frontier)[0] is active
            and active.size_bytes - self._sizes.get(active.base_offset, 0) <= LAST_BYTES_MAX
            and self._snapshots == set(log.producers.snapshots.offsets)
            and self._sizes.keys() | {active.base_offset} == set(log.segments.base_offsets)
        )

    @property
    def is_outdated(self) -> bool:
        """Whether the log was truncated since the copy began, so that it must start from scratch."""
        return self.log.durability.generation != self._generation

    # -- copying

    def next_step(self, bytes_max: int = COPY_BYTES_MAX) -> CopyStep | None:
        """Return the next part of the copy, with at most `bytes_max` bytes of records.

        None if the copy has all that the log has now.
        """
        log = self.log
        if self.is_outdated:
            return CopyStep(0, self._create, partial(self._on_created, log.durability.generation))
        first = log.segments.first.base_offset
        expired = [base for base in self._sizes if base < first]
        snapshots = set(log.producers.snapshots.offsets)
        if expired or self._snapshots - snapshots:
            expired_snapshots = self._snapshots - snapshots
            remove = partial(self._remove, expired, expired_snapshots)
            return CopyStep(0, remove, partial(self._on_removed, expired, expired_snapshots))
        for offset in sorted(snapshots - self._snapshots):
            path = log.producers.snapshots.path(offset)
            return CopyStep(
                0, partial(self._copy_snapshot, path, offset), partial(self._snapshots.add, offset)
            )
        for segment in log.segments.from_offset(self._frontier):
            copied = self._sizes.get(segment.base_offset, 0)
            if copied < segment.size_bytes:
                size_bytes = min(segment.size_bytes - copied, bytes_max)
                return self._records_step(segment, copied, size_bytes)
            if segment is not log.segments.active:
                return self._indexes_step(segment)
        return None

    def _create(self) -> None:
        """Create the directory without any files; the log's own marker is outdated now."""
        fs, log = self._fs, self.log
        self.close()
        fs.makedirs(self.directory)
        for name in fs.listdir(self.directory):
            fs.unlink(f"{self.directory}/{name}")
        fs.fsync_dir(self.directory)
        fs.fsync_dir(parent_directory(self.directory))
        remove_replacement_marker(fs, log.directory)

    def _on_created(self, generation: int) -> None:
        self._generation = generation
        self._sizes, self._frontier = {}, 0
        self._snapshots = set()
        self._durable_state = None

    def _records_step(self, segment: LogSegment, position: int, size_bytes: int) -> CopyStep:
        source, base, generation = segment.file.hold(), segment.base_offset, self._generation

        def copy() -> None:
            self._append(base, position, _read(source, position, size_bytes))

        def on_copied() -> None:
            if self.log.durability.generation == generation:
                self._sizes[base] = position + size_bytes

        return CopyStep(size_bytes, copy, on_copied)

    def _append(self, base: Offset, position: int, data: bytes) -> None:
        """Write `data` at `position` of the copy of a segment, and remove what an earlier step left there."""
        if self._open_file is None or self._open_file[0] != base:
            self.close()
            path = f"{self.directory}/{file_name(base, LOG_SUFFIX)}"
            self._open_file = base, self._fs.open_to_keep(path, create=True)
        _, file = self._open_file
        file.truncate(position)
        file.append(data)

    def _indexes_step(self, segment: LogSegment) -> CopyStep:
        """Copy the indexes of a sealed segment whose records are copied, and sync all its files."""
        base, generation = segment.base_offset, self._generation
        sources = {kind: file.hold() for kind, file in _index_files(segment)}
        following = self.log.segments.higher(base)
        assert following is not None, f"{segment.file.path} is not sealed"

        def copy() -> None:
            self._append(base, self._sizes.get(base, 0), b"")
            assert self._open_file is not None
            self._open_file[1].fsync()
            self.close()
            for kind, source in sources.items():
                self._write(file_name(base, kind), _read(source, 0, source.size()))

        def on_copied() -> None:
            if self.log.durability.generation == generation:
                self._sizes.setdefault(base, 0)
                self._frontier = following.base_offset

        return CopyStep(0, copy, on_copied)

    def _copy_snapshot(self, path: str, offset: Offset) -> None:
        try:
            data = self._fs.read(path)
        except FileNotFoundError:
            return  # It was deleted meanwhile, and so is its copy then.
        except OSError as error:
            raise SourceFailure(str(error)) from error
        self._write(file_name(offset, SNAPSHOT_SUFFIX), data)

    def _write(self, name: str, data: bytes) -> None:
        """Write and sync a whole file."""
        file = self._fs.open(f"{self.directory}/{name}", create=True)
        try:
            file.truncate(0)
            file.append(data)
            file.fsync()
        finally:
            file.close()

    def _remove(self, segments: list[Offset], snapshots: set[Offset]) -> None:
        names = [file_name(base, kind) for base in segments for kind in SEGMENT_SUFFIXES]
        names += [file_name(offset, SNAPSHOT_SUFFIX) for offset in sorted(snapshots)]
        for path in (f"{self.directory}/{name}" for name in names):
            if self._fs.exists(path):
                self._fs.unlink(path)

    def _on_removed(self, segments: list[Offset], snapshots: set[Offset]) -> None:
        for base in segments:
            self._sizes.pop(base, None)
        self._snapshots -= snapshots

    # -- the end of the copy

    def planned_checkpoint(self) -> CopyStep:
        """Return what makes the copy durable up to the log's recovery point; no flush may be running.

        The copy must be almost complete. The recovery point must not rise until `replace` was called.
        """
        log, state = self.log, self._current_state
        active = log.segments.active
        active.files.open_for_appending()
        position = self._sizes.get(active.base_offset, 0)
        records = self._records_step(active, position, active.size_bytes - position)

        def run() -> None:
            records.run()
            assert self._open_file is not None
            self._open_file[1].fsync()
            LeaderEpochCheckpoint(self._fs, f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}").write(
                state.leader_epochs
            )
            if state.topic_id is not None:
                PartitionMetadataFile(self._fs, self.directory).write(state.topic_id)
            marker = f"{self.directory}/{REPLACEMENT_MARKER}"
            write_atomically(self._fs, marker, log.directory.encode())

        def on_done() -> None:
            records.on_done()
            self._durable_state = state

        return CopyStep(records.size_bytes, run, on_done)

    @property
    def _current_state(self) -> _DurableState:
        log = self.log
        return _DurableState(
            log.durability.generation,
            log.durability.recovery_point,
            log.log_start_offset,
            log.first_dirty_offset,
            tuple(log.leader_epochs.entries),
            log.topic_id,
        )

    @property
    def is_durable(self) -> bool:
        """Whether the copy is still what `planned_checkpoint` made durable, apart from later records."""
        return self._durable_state == self._current_state

    @property
    def can_replace(self) -> bool:
        """Whether `replace` is possible now: the copy is durable, and only a few bytes are missing."""
        return self.log.failure is None and self.is_durable and self.is_almost_complete

    def replace(self, directory: str, observer: LogObserver) -> None:
        """Copy the last bytes, give the copy the name `directory`, and let the log use it.

        `can_replace` must be True. Errors: OSError, StorageFailure; then the log uses its own files.
        """
        fs, active = self._fs, self.log.segments.active
        base, position = active.base_offset, self._sizes.get(active.base_offset, 0)
        active.files.open_for_appending()
        self._append(base, position, _read(active.file, position, active.size_bytes - position))
        assert self._open_file is not None
        for kind in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = f"{self.directory}/{file_name(base, kind)}"
            if not fs.exists(path):
                fs.create(path)
        indexes = [OnDemandFile(fs, f"{self.directory}/{file_name(base, kind)}") for kind in INDEX_SUFFIXES]
        fs.rename(self.directory, directory)
        (_, file), self._open_file = self._open_file, None
        file.relocate(f"{directory}/{file_name(base, LOG_SUFFIX)}")
        for kind, index in zip(INDEX_SUFFIXES, indexes, strict=True):
            index.relocate(f"{directory}/{file_name(base, kind)}")
        self.log.relocate(directory, observer, file, indexes)
        self.directory = directory

    def close(self) -> None:
        """Close the file of the copy that is open."""
        if self._open_file is not None:
            self._open_file[1].close()
            self._open_file = None


def remove_replacement_marker(fs: FileSystem, directory: str) -> None:
    """Remove the marker from a log whose copy in the other directory no longer exists, durably."""
    path = f"{directory}/{REPLACEMENT_MARKER}"
    if fs.exists(path):
        fs.unlink(path)
        fs.fsync_dir(directory)


def _index_files(segment: LogSegment) -> list[tuple[str, File]]:
    """Return the existing indexes of a segment, each with its suffix."""
    files = zip(INDEX_SUFFIXES, (segment.offset_index, segment.time_index, segment.txn_index), strict=True)
    return [
        (kind, index.file)
        for kind, index in files
        if not isinstance(index.file, OnDemandFile) or index.file.exists
    ]


def _read(source: File, position: int, size_bytes: int) -> bytes:
    try:
        data = source.pread(size_bytes, position)
    except OSError as error:
        raise SourceFailure(f"{source.path}: {error}") from error
    if len(data) < size_bytes:
        # The caller checks whether the log was truncated meanwhile.
        reason = f"{source.path} ends {size_bytes - len(data)} bytes before {position + size_bytes}"
        raise SourceFailure(reason) from OSError(errno.EIO, reason, source.path)
    return data
