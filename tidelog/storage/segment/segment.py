"""One segment of a partition log: batches, and three indexes of them.

`SegmentFiles` owns the files of the segment: names, descriptors, durability. `LogSegment` appends batches,
finds them, and decides when the log rolls.

Invariant: `size_bytes` is a batch boundary; `max_timestamp` is the largest timestamp in the segment.
Bounds: `_boundaries` caches at most `BOUNDARIES_MAX` batch starts, so that readers near the end of
the log need neither index nor file.
I/O: through `tidelog.storage.disk.files`. Errors: OSError, StorageFailure; CorruptLog, CorruptIndex by file
name.
Source: org.apache.kafka.storage.internals.log.LogSegment of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from tidelog.protocol.batch import LOG_OVERHEAD, BatchHeader
from tidelog.protocol.ids import Offset
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.segment.batch_scan import LONG_SCAN_BYTES, SHORT_SCAN_BYTES, headers
from tidelog.storage.segment.offset_index import MAX_RELATIVE_OFFSET
from tidelog.storage.segment.segment_files import SegmentFiles, remove_segment_files
from tidelog.storage.segment.time_index import NO_TIMESTAMP

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
        "_index_interval_bytes",
        "base_offset",
        "created_ms",
        "files",
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
        self.base_offset = base_offset
        self.created_ms = now_ms
        self.roll_jitter_ms = _roll_jitter_ms(config, directory, base_offset)
        self._index_interval_bytes = config.index_interval_bytes
        self.files = SegmentFiles(
            fs, directory, base_offset, config.segment_index_bytes, create=create, suffix=suffix
        )
        # The same objects as in `files`, as every append and read uses them.
        self.offset_index = self.files.offset_index
        self.time_index = self.files.time_index
        self.txn_index = self.files.txn_index
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last_entry
        self._bytes_since_last_index_entry = 0
        self._first_timestamp: int | None = None
        self._boundaries: dict[Offset, int] = {base_offset: 0}

    @property
    def file(self) -> File:
        """The file of the batches."""
        return self.files.log

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        return self.files.log.size()

    # -- appending

    def append(
        self, data: bytes | bytearray | memoryview, batches: Sequence[BatchHeader | IndexedBatch]
    ) -> None:
        """Append complete batches with their final headers, and index entries about every index interval.

        All or nothing: after an error the files are as they were before.
        """
        log = self.files.log
        start = log.size()
        log.append(data)
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
        log = self.files.log
        start = log.size()
        log.append(data)
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
            self.files.log.truncate(size_bytes)
            self._truncate_indexes(next_offset)
        except OSError as error:
            raise StorageFailure(self.files.log.path, "undoing an append", str(error)) from error

    def _truncate_indexes(self, offset: Offset) -> None:
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self._boundaries = {self.base_offset: 0}
        self._bytes_since_last_index_entry = 0
        if self.files.log.size() == 0:
            self._first_timestamp = None
        self._restore_max_timestamp()

    def _restore_max_timestamp(self) -> None:
        """Derive the largest timestamp from the last time index entry and the batches after it."""
        timestamp, offset = self.time_index.last_entry
        start = self.offset_index.lookup(offset).position
        for _, header in headers(self.files.log, start, self.files.log.size(), LONG_SCAN_BYTES):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self.max_timestamp, self.offset_of_max_timestamp = timestamp, offset

    def end_offset_when_cut_to(self, offset: Offset) -> Offset:
        """Return where `truncate_to(offset)` would end the segment: at a batch start, `offset` or lower."""
        place = self.find(offset)
        return offset if place is None else min(offset, place.header.base_offset)

    def truncate_to(self, offset: Offset) -> None:
        """Remove the batch that contains `offset` and all after it, durably."""
        self.files.open_for_appending()
        place = self.find(offset)
        if place is not None:
            self.files.log.truncate(place.position)
        self._truncate_indexes(offset)
        self.files.log.fsync()

    def seal(self) -> None:
        """Complete the indexes, as no batch will follow, and release their memory."""
        self.complete_indexes()
        self.files.unload_indexes()

    def complete_indexes(self) -> None:
        """Add the segment's largest timestamp to the time index, and write entries that are only in memory.

        Retention and look-ups in sealed segments require it.
        """
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp, skip_full_check=True)
        self.files.write_indexes()

    # -- when to roll

    def is_due_to_roll(
        self, config: LogConfig, append_bytes: int, last_offset: Offset, max_timestamp: int, now_ms: int
    ) -> bool:
        """Return whether a batch with these properties belongs to a new segment.

        Time is measured in the records' own timestamps from the first batch on (KIP-33), in
        wall-clock time from the segment's creation if that batch has none.
        """
        files = self.files
        if not files.is_open_for_appending:
            files.open_for_appending()
        size_bytes = files.log.size()
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
        if self._first_timestamp is None and self.files.log.size():
            for _, header in headers(self.files.log, 0, self.files.log.size()):
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
        for position, header in headers(self.files.log, start, self.files.log.size(), SHORT_SCAN_BYTES):
            if header.last_offset >= offset:
                return BatchPlace(position, header)
        return None

    def position_of(self, offset: Offset) -> int:
        """Return where the batch that contains `offset` starts; the segment's end if all are before it."""
        known = self._boundaries.get(offset)
        if known is not None:
            return known
        place = self.find(offset)
        position = self.files.log.size() if place is None else place.position
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
        for at, header in headers(self.files.log, scan_from, self.files.log.size(), SHORT_SCAN_BYTES):
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
        return headers(self.files.log, start, self.files.log.size() if end is None else end, LONG_SCAN_BYTES)

    def next_offset(self) -> Offset:
        """Return the offset after the last batch; `base_offset` if there is none. I/O: a short scan."""
        next_offset = self.base_offset
        entry = self.offset_index.lookup(self.offset_index.last_offset)
        for _, header in headers(self.files.log, entry.position, self.files.log.size(), LONG_SCAN_BYTES):
            next_offset = header.next_offset
        return next_offset

    # -- rebuilding the indexes

    def forget_indexes(self) -> None:
        """Remove all index entries and what was derived from them, before they are rebuilt."""
        for index in self.files.indexes:
            index.truncate()
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._first_timestamp = None
        self._bytes_since_last_index_entry = 0
        self._boundaries = {self.base_offset: 0}

    def reindex(self, header: BatchHeader, position: int) -> None:
        """Index one existing batch at `position`, while indexes are rebuilt."""
        self._index([header], position)


def create_segment(
    fs: FileSystem, directory: str, base_offset: Offset, config: LogConfig, now_ms: int
) -> LogSegment:
    """Create an empty segment, which is not yet part of a log.

    Files that an earlier segment left under the same names are removed first.
    Errors: OSError; then no file of the segment remains.
    """
    remove_segment_files(fs, directory, base_offset)
    try:
        return LogSegment(fs, directory, base_offset, config, now_ms, create=True)
    except OSError:
        # The log would end at an empty segment file that remains here when it is opened again.
        with suppress(OSError):
            remove_segment_files(fs, directory, base_offset)
        raise


def _roll_jitter_ms(config: LogConfig, directory: str, base_offset: Offset) -> int:
    """Return how much earlier than segment.ms a segment rolls, so that many logs do not roll at once.

    Kafka draws it at random. Here it is derived from the names, so that runs can be repeated.
    """
    limit = min(config.segment_jitter_ms, config.max_segment_ms)
    name = directory.rpartition("/")[2]
    return crc32(f"{name}-{base_offset}".encode()) % limit if limit > 0 else 0
