"""The part of compaction that takes long: filling the offset map, and writing cleaned segments.

It runs in a worker process: it reads files of sealed segments and writes `.cleaned` files that only it uses.
Batches are processed many at a time, with numpy.

Bounds: WINDOW_BYTES of batches and their expanded records, or one batch if it is larger, with about 150 bytes
for each of their records; as many bytes of output; the flags of `latest_records`.
I/O: every byte of the segments once, those of the dirty part twice. The checksum of each batch is verified,
so that damage does not get a valid one. Errors: CorruptLog, DecodeError for records that cannot be read;
OSError, StorageFailure of the disk; any exception that `pace` raises. No files remain after an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BatchHeader
from tidelog.protocol.ids import Offset
from tidelog.protocol.record_columns.key_columns import Payloads, read_key_columns
from tidelog.protocol.record_columns.varints import Numbers
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.compaction.batch_filter import BatchFilter, emptied
from tidelog.storage.compaction.batch_window import BatchWindow, read_windows
from tidelog.storage.compaction.cleaned_transactions import CleanedTransactions
from tidelog.storage.compaction.expansion import expanded_parts
from tidelog.storage.compaction.joining import RetainedBatches
from tidelog.storage.compaction.latest_records import LatestRecords
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.compaction.task import CleaningTask
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import CLEANED_SUFFIX, LOG_SUFFIX, file_name
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_files import remove_segment_files

WINDOW_BYTES: Final = 4 * 1024 * 1024
_OF_TRANSACTIONS: Final = ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL

Pace: TypeAlias = Callable[[int], None]
"""Called often with the number of bytes that were read or written; may block, and raise to end the work."""

Background: TypeAlias = Callable[[Callable[[], None]], Callable[[], None]]
"""Starts a function, and returns another one that waits for its end and raises its error."""


def _windows(
    fs: FileSystem, task: CleaningTask, source: SourceSegment, start: int, pace: Pace
) -> Iterator[BatchWindow]:
    """Yield the batches of a segment from the boundary `start` on."""
    path = f"{task.directory}/{file_name(source.base_offset, LOG_SUFFIX)}"
    with closing(fs.open_to_keep(path, create=False)) as file:
        for window in read_windows(file, start, max(WINDOW_BYTES, task.io_buffer_bytes)):
            pace(window.size_bytes)
            yield window


def _prepare_directory(fs: FileSystem, directory: str) -> None:
    """Unlink what an earlier round has left, or one of a deleted log with the same directory.

    After a crash, a .cleaned file marks the .swap files from its offset on as incomplete, and records would
    be lost. Therefore also the result of an earlier round must be durable before a new .cleaned file exists.
    Within a round, the .swap files have lower offsets.
    """
    for name in fs.listdir(directory):
        if name.endswith(CLEANED_SUFFIX):
            fs.unlink(f"{directory}/{name}")
    fs.fsync_dir(directory)


# -- the offset map


class OffsetMapFiller:
    """Adds the keys of the dirty part of a log to the offset map while it has space."""

    def __init__(self, fs: FileSystem, task: CleaningTask, offsets: OffsetMap, pace: Pace) -> None:
        self._fs = fs
        self._task = task
        self._offsets = offsets
        self._pace = pace
        self._transactions = CleanedTransactions(
            one for one in task.aborted if one.last_offset >= task.first_dirty_offset
        )

    def fill(self) -> Offset:
        """Return the end of what was added."""
        task, offsets = self._task, self._offsets
        _prepare_directory(self._fs, task.directory)
        for source in task.sources:
            if source.end_offset > task.first_dirty_offset and not self._add_source(source):
                return max(offsets.latest_offset + 1, task.first_dirty_offset)
        return task.end_offset

    def _add_source(self, source: SourceSegment) -> bool:
        """Add the keys of one segment; return False if not all of them fit."""
        offsets = self._offsets
        for window in _windows(self._fs, self._task, source, source.first_dirty_position, self._pace):
            last_offsets = window.last_offsets
            for part in expanded_parts(window, self._has_keys(window)):
                if part.payloads is not None and not self._add(part.payloads, last_offsets[part.indexes]):
                    return False
                offsets.taken_up_to(int(last_offsets[part.end - 1]))
        offsets.taken_up_to(source.end_offset - 1)
        return True

    def _has_keys(self, window: BatchWindow) -> NDArray[np.bool_]:
        """Return which batches have records that are not of aborted transactions."""
        headers = window.headers
        has_keys: NDArray[np.bool_] = headers["record_count"] > 0
        is_special = headers["attributes"] & _OF_TRANSACTIONS != 0
        for index in np.flatnonzero(is_special).tolist():
            header = window.header(index)
            if header.is_control:
                has_marker = header.record_count and header.has_producer_id
                marker = read_end_transaction_marker(window.batch(index), 0, header) if has_marker else None
                self._transactions.saw_marker(header, marker)
                has_keys[index] = False
            elif self._transactions.saw_data(header):
                has_keys[index] = False
        return has_keys

    def _add(self, payloads: Payloads, last_offsets: Numbers) -> bool:
        """Add the keys of several batches; return False if not all of them fit."""
        offsets = self._offsets
        columns = read_key_columns(payloads)
        is_added = (columns.key_lengths >= 0) & (columns.offsets >= self._task.first_dirty_offset)
        rows = np.flatnonzero(is_added)
        key_starts, key_lengths = columns.key_starts[rows], columns.key_lengths[rows]
        hashes = offsets.hasher.hashes(columns.data, key_starts, key_lengths)
        record_offsets, batches = columns.offsets[rows], columns.batch[rows]
        if offsets.fits(len(rows)):
            offsets.put(hashes, record_offsets)
            return True
        bounds = np.searchsorted(batches, np.arange(len(last_offsets) + 1)).tolist()
        for last_offset, first, end in zip(last_offsets.tolist(), bounds[:-1], bounds[1:], strict=True):
            part = slice(first, end)
            if not offsets.put_batch(hashes.rows(part), record_offsets[part]):
                return False
            offsets.taken_up_to(last_offset)
        return True


# -- cleaned segments


class _Unsynced(NamedTuple):
    """A segment that is being made durable."""

    segment: LogSegment
    wait: Callable[[], None]


class GroupCleaner:
    """Writes the groups of one round, in order, and counts the bytes.

    A group is made durable while the next one is written.
    """

    def __init__(
        self,
        fs: FileSystem,
        task: CleaningTask,
        offsets: OffsetMap,
        pace: Pace,
        background: Background,
    ) -> None:
        self._fs = fs
        self._task = task
        self._transactions = CleanedTransactions(task.aborted)
        self._latest = LatestRecords(offsets, task.first_dirty_offset)
        self._pace = pace
        self._background = background
        self._unsynced: _Unsynced | None = None
        self.bytes_read = 0
        self.bytes_written = 0

    def clean(self, group: Sequence[SourceSegment]) -> None:
        """Write the cleaned segment of a group: sealed, its files end in `.cleaned`.

        When this returns, the segments of all earlier groups are durable; `sync` waits for the last one.
        """
        base_offset = group[0].base_offset
        cleaned: LogSegment | None = None
        try:
            cleaned = LogSegment(
                self._fs,
                self._task.directory,
                base_offset,
                self._task.config,
                group[-1].created_ms,
                create=True,
                suffix=CLEANED_SUFFIX,
            )
            cleaned.files.open_for_appending()
            self._fill(cleaned, group)
            cleaned.seal()
            self.sync()
            self._unsynced = _Unsynced(cleaned, self._background(partial(self._make_durable, cleaned)))
        except BaseException:
            if cleaned is not None:
                cleaned.files.close()
            self._remove_files(base_offset)
            self._discard_unsynced()
            raise

    def sync(self) -> None:
        """Wait until the segments of all groups are durable."""
        unsynced, self._unsynced = self._unsynced, None
        if unsynced is None:
            return
        try:
            unsynced.wait()
        except BaseException:
            self._remove_files(unsynced.segment.base_offset)
            raise

    def _make_durable(self, cleaned: LogSegment) -> None:
        try:
            cleaned.files.sync()
        finally:
            cleaned.files.close()
        self._fs.fsync_dir(self._task.directory)

    def _discard_unsynced(self) -> None:
        if self._unsynced is not None:
            base_offset = self._unsynced.segment.base_offset
            with suppress(OSError, StorageFailure):
                self.sync()
            self._remove_files(base_offset)

    def _remove_files(self, base_offset: Offset) -> None:
        with suppress(OSError):
            remove_segment_files(self._fs, self._task.directory, base_offset, CLEANED_SUFFIX)

    def _fill(self, cleaned: LogSegment, group: Sequence[SourceSegment]) -> None:
        task = self._task
        batch_filter = BatchFilter(
            self._latest,
            self._transactions,
            task.last_records,
            cleaned.txn_index.append,
            end_offset=task.end_offset,
            now_ms=task.now_ms,
            delete_retention_ms=task.config.delete_retention_ms,
        )
        last: BatchHeader | None = None
        last_base_offset, end_offset = cleaned.base_offset, cleaned.base_offset
        for source in group:
            for window in _windows(self._fs, task, source, 0, self._pace):
                last, last_base_offset = window.header(-1), source.base_offset
                self.bytes_read += window.size_bytes
                for retained in batch_filter.filtered(window):
                    if retained.batches:
                        end_offset = self._write(cleaned, retained)
        if last is not None and end_offset <= last_base_offset != cleaned.base_offset:
            # After a crash the last batch of a .swap file shows which segments it replaces.
            header, data = emptied(last)
            cleaned.append(data, [header])
            self.bytes_written += len(data)

    def _write(self, cleaned: LogSegment, retained: RetainedBatches) -> Offset:
        """Append batches, and return the offset after them."""
        self._pace(len(retained.data))
        cleaned.append(retained.data, retained.batches)
        self.bytes_written += len(retained.data)
        return retained.batches[-1].last_offset + 1
