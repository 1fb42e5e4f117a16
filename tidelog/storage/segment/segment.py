"""One segment of a partition log: a file of batches with its three indexes.

| file | content |
|---|---|
| `.log` | batches, one after the other |
| `.index` | offset -> position, about one entry every index.interval.bytes |
| `.timeindex` | largest timestamp so far -> offset (KIP-33) |
| `.txnindex` | aborted transactions; exists only if there are any |

Invariant: `size_bytes` is a batch boundary; `max_timestamp` is the largest timestamp in the segment.
Bounds: `_boundaries` caches at most `BOUNDARIES_MAX` batch starts, so that readers near the end of
the log need neither index nor file.
Descriptors: the active segment has an open one for its log from the first append on, and its indexes
are in memory. Any other segment has only descriptors of files with unsynced changes; see
`tidelog.storage.disk.on_demand_file`.
I/O: through `tidelog.storage.disk.files`. Errors: OSError, StorageFailure; CorruptLog, CorruptIndex by file
name.
Source: org.apache.kafka.storage.internals.log.LogSegment of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from errno import ENOENT
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from tidelog.protocol.batch import LOG_OVERHEAD, BatchHeader
from tidelog.protocol.ids import Offset
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.disk.log_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from tidelog.storage.disk.on_demand_file import OnDemandFile, UnsyncedChanges
from tidelog.storage.segment.batch_scan import LONG_SCAN_BYTES, SHORT_SCAN_BYTES, headers
from tidelog.storage.segment.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from tidelog.storage.segment.segment_index import SegmentIndex
from tidelog.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex

BOUNDARIES_MAX: Final = 256


class BatchPlace(NamedTuple):
    """The position of a batch in its segment, in bytes, and its header."""

    position: int
    header: BatchHeader


class IndexedBatch(NamedTuple):
    """What the indexes need of the header of a batch, with its fields."""

    base_offset: Offset
    batch_length: int
    last_offset: Offset
    max_timestamp: int


class LogSegment:
    """The batches from `base_offset` to the base offset of the next segment."""

    __slots__ = (
        "_boundaries",
        "_bytes_since_last_index_entry",
        "_first_timestamp",
        "_fs",
        "_index_interval_bytes",
        "_is_open_for_appending",
        "_is_retired",
        "base_offset",
        "created_ms",
        "directory",
        "file",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "roll_jitter_ms",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: Offset,
        config: LogConfig,
        now_ms: int,
        *,
        create: bool,
        suffix: str = "",
    ) -> None:
        """Open or create the segment; missing indexes are created empty (recovery looks for them before)."""

        def file(kind: str) -> OnDemandFile:
            path = f"{directory}/{file_name(base_offset, kind)}{suffix}"
            found = OnDemandFile(fs, path)
            if found.exists or kind == TXN_INDEX_SUFFIX:
                return found
            if kind == LOG_SUFFIX and not create:
                raise FileNotFoundError(ENOENT, "No such segment", path)
            fs.create(path)
            return OnDemandFile(fs, path)

        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = now_ms
        self.roll_jitter_ms = _roll_jitter_ms(config, directory, base_offset)
        self._fs = fs
        self._is_open_for_appending = False
        self._is_retired = False
        self._index_interval_bytes = config.index_interval_bytes
        self.file: File = file(LOG_SUFFIX)
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(file(OFFSET_INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(file(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.txn_index = TransactionIndex(file(TXN_INDEX_SUFFIX), base_offset)
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last_entry
        self._bytes_since_last_index_entry = 0
        self._first_timestamp: int | None = None
        self._boundaries: dict[Offset, int] = {base_offset: 0}

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        return self.file.size()

    @property
    def _files(self) -> tuple[File, ...]:
        """The files in the order of SEGMENT_SUFFIXES."""
        return self.file, *(index.file for index in self._indexes)

    @property
    def _indexes(self) -> tuple[SegmentIndex, ...]:
        return self.offset_index, self.time_index, self.txn_index

    # -- appending

    def open_for_appending(self) -> None:
        """Open what appends and truncations need, so that they cannot fail later for lack of a descriptor."""
        if isinstance(self.file, OnDemandFile):
            self.file = self.file.open_for_writing()
        for index in self._indexes:
            index.load()
        self._is_open_for_appending = True

    def append(
        self, data: bytes | bytearray | memoryview, batches: Sequence[BatchHeader | IndexedBatch]
    ) -> None:
        """Append complete batches with their final headers, and index entries about every index interval.

        All or nothing: after an error the files are as they were before.
        """
        start = self.file.size()
        self.file.append(data)
        try:
            self._index(batches, start)
        except Exception:
            self._cut_back(start, batches[0].base_offset)
            raise

    def append_batch(
        self,
        data: bytes | bytearray | memoryview,
        base_offset: Offset,
        last_offset: Offset,
        max_timestamp: int,
    ) -> None:
        """Append one batch like `append`; the arguments are all that is needed from its header."""
        start = self.file.size()
        self.file.append(data)
        try:
            self._index_batch(last_offset, max_timestamp, start, len(data))
        except Exception:
            self._cut_back(start, base_offset)
            raise

    def _index(self, batches: Sequence[BatchHeader | IndexedBatch], position: int) -> None:
        for header in batches:
            size_bytes = header.batch_length + LOG_OVERHEAD
            self._index_batch(header.last_offset, header.max_timestamp, position, size_bytes)
            position += size_bytes

    def _index_batch(self, last_offset: Offset, newest: int, position: int, size_bytes: int) -> None:
        if newest > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = newest, last_offset
        if position == 0:
            self._first_timestamp = newest
        unindexed_bytes = self._bytes_since_last_index_entry
        if unindexed_bytes > self._index_interval_bytes and not (
            self.offset_index.is_full or self.time_index.is_full  # the next append rolls
        ):
            self._add_index_entries(last_offset, position)
            unindexed_bytes = 0
        self._bytes_since_last_index_entry = unindexed_bytes + size_bytes
        # The end of this batch is the start of the next one.
        boundaries = self._boundaries
        boundaries[last_offset + 1] = position + size_bytes
        if len(boundaries) > BOUNDARIES_MAX:
            self._forget_boundaries()

    def _add_index_entries(self, last_offset: Offset, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def _cut_back(self, size_bytes: int, next_offset: Offset) -> None:
        try:
            self.file.truncate(size_bytes)
            self._truncate_indexes(next_offset)
        except OSError as error:
            raise StorageFailure(self.file.path, "undoing an append", str(error)) from error

    def _truncate_indexes(self, offset: Offset) -> None:
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._boundaries = {self.base_offset: 0}
        self._bytes_since_last_index_entry = 0
        if self.file.size() == 0:
            self._first_timestamp = None
        self._restore_max_timestamp()

    def _restore_max_timestamp(self) -> None:
        """Derive the largest timestamp from the last time index entry and the batches after it."""
        timestamp, offset = self.time_index.last_entry
        start = self.offset_index.lookup(offset).position
        for _, header in headers(self.file, start, self.file.size(), LONG_SCAN_BYTES):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self.max_timestamp, self.offset_of_max_timestamp = timestamp, offset

    def end_offset_when_cut_to(self, offset: Offset) -> Offset:
        """Return where `truncate_to(offset)` would end the segment: at a batch start, `offset` or lower."""
        place = self.find(offset)
        return offset if place is None else min(offset, place.header.base_offset)

    def truncate_to(self, offset: Offset) -> None:
        """Remove the batch that contains `offset` and all after it, durably."""
        self.open_for_appending()
        place = self.find(offset)
        if place is not None:
            self.file.truncate(place.position)
        self._truncate_indexes(offset)
        self.file.fsync()

    def seal(self) -> None:
        """Complete the indexes, as no batch will follow, and release their memory."""
        self.complete_indexes()
        self.unload_indexes()

    def unload_indexes(self) -> None:
        """Release the memory of indexes that are complete."""
        self._is_open_for_appending = False
        for index in self._indexes:
            index.unload()

    def complete_indexes(self) -> None:
        """Add the segment's largest timestamp to the time index, and write entries that are only in memory.

        Retention and look-ups in sealed segments require it.
        """
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp, skip_full_check=True)
        self.write_indexes()

    def write_indexes(self) -> None:
        """Write all changes to the index files; see `tidelog.storage.segment.entry_file`."""
        for index in self._indexes:
            index.write()

    # -- when to roll

    def is_due_to_roll(
        self, config: LogConfig, append_bytes: int, last_offset: Offset, max_timestamp: int, now_ms: int
    ) -> bool:
        """Return whether a batch with these properties belongs to a new segment.

        Time is measured in the records' own timestamps from the first batch on (KIP-33), in
        wall-clock time from the segment's creation if that batch has none.
        """
        if not self._is_open_for_appending:
            self.open_for_appending()
        size_bytes = self.file.size()
        if size_bytes > config.segment_bytes - append_bytes:
            return True
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if size_bytes and self._age_ms(now_ms, max_timestamp) > config.max_segment_ms - self.roll_jitter_ms:
            return True
        return self.offset_index.is_full or self.time_index.is_full

    def _age_ms(self, now_ms: int, max_timestamp: int) -> int:
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        if first is not None and first >= 0:
            return max_timestamp - first
        return now_ms - self.created_ms

    @property
    def first_timestamp(self) -> int | None:
        """The largest timestamp of the first batch, None if there is no batch."""
        if self._first_timestamp is None and self.file.size():
            for _, header in headers(self.file, 0, self.file.size()):
                self._first_timestamp = header.max_timestamp
                break
        return self._first_timestamp

    def largest_timestamp(self) -> int:
        """Return the timestamp for retention by time; the time of opening if no record has one."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.created_ms

    # -- finding

    def remember_boundary(self, offset: Offset, position: int) -> None:
        """Cache that the batch that contains or would contain `offset` starts at `position`."""
        self._boundaries[offset] = position
        if len(self._boundaries) > BOUNDARIES_MAX:
            self._forget_boundaries()

    def _forget_boundaries(self) -> None:
        # Many at once: to find the first key, a dict iterates over all that were deleted before it.
        self._boundaries = dict(islice(self._boundaries.items(), BOUNDARIES_MAX // 2, None))

    def find(self, offset: Offset) -> BatchPlace | None:
        """Return the first batch whose last offset is at or above `offset`; None if there is none."""
        known = self._boundaries.get(offset)
        start = self.offset_index.lookup(offset).position if known is None else known
        for position, header in headers(self.file, start, self.file.size(), SHORT_SCAN_BYTES):
            if header.last_offset >= offset:
                return BatchPlace(position, header)
        return None

    def position_of(self, offset: Offset) -> int:
        """Return where the batch that contains `offset` starts; the segment's end if all are before it."""
        known = self._boundaries.get(offset)
        if known is not None:
            return known
        place = self.find(offset)
        position = self.file.size() if place is None else place.position
        if place is None or place.header.base_offset == offset:
            self.remember_boundary(offset, position)
        return position

    def boundary_at_or_before(self, limit: int, start: int) -> tuple[int, Offset]:
        """Return the last batch boundary in (`start`, `limit`] and its offset; (`start`, -1) if none exists.

        `start` is a boundary itself and `limit` at most the segment's size.
        """
        entry = self.offset_index.last_at_or_before_position(limit)
        scan_from = start if entry is None else max(start, entry.position)
        position, offset = start, -1
        for at, header in headers(self.file, scan_from, self.file.size(), SHORT_SCAN_BYTES):
            if at > limit:
                break
            if at > start:
                position, offset = at, header.base_offset
            following = at + header.size_bytes
            if following > limit:
                break
            position, offset = following, header.next_offset
            if following == limit:
                break
        return position, offset

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Yield positions and headers from the batch boundary `start` on."""
        return headers(self.file, start, self.file.size() if end is None else end, LONG_SCAN_BYTES)

    def next_offset(self) -> Offset:
        """Return the offset after the last batch; `base_offset` if there is none. I/O: a short scan."""
        next_offset = self.base_offset
        entry = self.offset_index.lookup(self.offset_index.last_offset)
        for _, header in headers(self.file, entry.position, self.file.size(), LONG_SCAN_BYTES):
            next_offset = header.next_offset
        return next_offset

    # -- files

    def forget_indexes(self) -> None:
        """Remove all index entries and what was derived from them, before they are rebuilt."""
        for index in self._indexes:
            index.truncate()
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._first_timestamp = None
        self._bytes_since_last_index_entry = 0
        self._boundaries = {self.base_offset: 0}

    def reindex(self, header: BatchHeader, position: int) -> None:
        """Index one existing batch at `position`, while indexes are rebuilt."""
        self._index([header], position)

    # -- durability

    def unsynced_changes(self) -> list[UnsyncedChanges]:
        """Return the unsynced changes of on-demand files; the log file of an active segment is not one."""
        found = (file.unsynced_changes() for file in self._files if isinstance(file, OnDemandFile))
        return [changes for changes in found if changes is not None]

    def sync(self) -> None:
        """Make the log and then the indexes durable; only for the owner of the segment.

        Errors: OSError if a file cannot be opened, StorageFailure if an fsync fails.
        """
        self.file.fsync()
        self.sync_indexes()

    def sync_indexes(self) -> None:
        """Make the indexes durable."""
        for index in self._indexes:
            index.flush()

    def release_descriptors(self) -> None:
        """Close the descriptors, as everything is durable; readers keep theirs."""
        if not isinstance(self.file, OnDemandFile) and not self._is_retired:
            self._is_open_for_appending = False
            self.file = OnDemandFile(self._fs, self.file.path, self.file.size())

    # -- files

    def rename(self, fs: FileSystem, old_suffix: str, new_suffix: str) -> list[str]:
        """Change the suffix of the files and return the new paths; missing files are ignored.

        Descriptors of a deleted segment are not cached, so that its space is free after it is unlinked.
        """
        renamed = []
        for kind, file in zip(SEGMENT_SUFFIXES, self._files, strict=True):
            path = f"{self.directory}/{file_name(self.base_offset, kind)}"
            if not fs.exists(path + old_suffix):
                continue
            if isinstance(file, OnDemandFile):
                file.rename(path + new_suffix)
            else:
                fs.rename(path + old_suffix, path + new_suffix)
            renamed.append(path + new_suffix)
        if new_suffix == DELETED_SUFFIX:
            self.retire(has_path=True)
        return renamed

    def relocate(self, directory: str) -> None:
        """Use the copies in `directory` from now on, which are durable and have the same bytes."""
        assert not self._is_open_for_appending, f"{self.file.path} is active"
        self.directory = directory
        for kind, file in zip(SEGMENT_SUFFIXES, self._files, strict=True):
            path = f"{directory}/{file_name(self.base_offset, kind)}"
            if isinstance(file, OnDemandFile):
                file.relocate(path)
            else:
                # The log of a segment that was not flushed yet.
                self.file = OnDemandFile(self._fs, path, file.size())

    def relocate_active(self, directory: str, file: File, index_files: Sequence[OnDemandFile]) -> None:
        """Use `file`, an open copy of the log in `directory`; the indexes are in memory and written later.

        `index_files` are empty or do not exist.
        """
        assert self._is_open_for_appending, f"{self.file.path} is not open for appending"
        self.directory = directory
        self.file = file
        for index, index_file in zip(self._indexes, index_files, strict=True):
            index.file.close()
            index.replace_file(index_file)

    def retire(self, *, has_path: bool) -> None:
        """Cache no descriptors from now on; with `has_path` False no file can be opened again."""
        self._is_retired = True
        for file in self._files:
            if isinstance(file, OnDemandFile):
                file.retire(has_path=has_path)

    def close(self) -> None:
        """Close the files; reads of slices fail from now on."""
        for index in self._indexes:
            index.close()
        self.file.close()


def _roll_jitter_ms(config: LogConfig, directory: str, base_offset: Offset) -> int:
    """Return how much earlier than segment.ms a segment rolls, so that many logs do not roll at once.

    Kafka draws it at random. Here it is derived from the names, so that runs can be repeated.
    """
    limit = min(config.segment_jitter_ms, config.max_segment_ms)
    name = directory.rpartition("/")[2]
    return crc32(f"{name}-{base_offset}".encode()) % limit if limit > 0 else 0
