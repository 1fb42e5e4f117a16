"""The part of compaction that takes long: filling the offset map, and writing cleaned segments.

It runs in a worker process: it reads files of sealed segments and writes `.cleaned` files that only it uses.
Batches are processed many at a time, with numpy.

Bounds: WINDOW_BYTES of batches and their expanded records, or one batch if it is larger, with about 150 bytes
for each of their records.
I/O: every byte of the segments once, those of the dirty part twice. The checksum of each batch is verified,
so that damage does not get a valid one. Errors: CorruptLog, DecodeError for records that cannot be read;
OSError, StorageFailure of the disk; any exception that `pace` raises. No files remain after an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Final, TypeAlias

import numpy as np

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.compression import BytesLike
from tidelog.protocol.ids import Offset
from tidelog.protocol.record_columns.key_columns import read_key_columns
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.compaction.batch_filter import BatchFilter, ClassifiedBatch, emptied
from tidelog.storage.compaction.cleaned_transactions import CleanedTransactions
from tidelog.storage.compaction.expansion import expanded
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.rebuilding import RetainedBatch
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.compaction.task import CleaningTask
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import CLEANED_SUFFIX, LOG_SUFFIX, file_name
from tidelog.storage.segment.batch_scan import CheckedBatch, checked_batches
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_files import remove_segment_files

WINDOW_BYTES: Final = 4 * 1024 * 1024
_WINDOW_RECORDS: Final = 128 * 1024

Pace: TypeAlias = Callable[[int], None]
"""Called often with the number of bytes that were read or written; may block, and raise to end the work."""


class _Window:
    """Measures the batches that are collected to be processed together."""

    __slots__ = ("_bytes", "_records")

    def __init__(self) -> None:
        self._bytes = self._records = 0

    def add(self, header: BatchHeader, records: BytesLike) -> bool:
        """Count a batch with its expanded records; return whether the window is full, and begin the next."""
        self._bytes += header.batch_length + len(records)
        self._records += header.record_count
        if self._bytes < WINDOW_BYTES and self._records < _WINDOW_RECORDS:
            return False
        self._bytes = self._records = 0
        return True


def _batches(
    fs: FileSystem, task: CleaningTask, source: SourceSegment, start: int, pace: Pace
) -> Iterator[CheckedBatch]:
    path = f"{task.directory}/{file_name(source.base_offset, LOG_SUFFIX)}"
    with closing(fs.open_to_keep(path, create=False)) as file:
        for batch in checked_batches(file, start, task.io_buffer_bytes):
            pace(len(batch.data))
            yield batch


def _remove_cleaned_files(fs: FileSystem, directory: str) -> None:
    """Unlink what an earlier round has left, or one of a deleted log with the same directory.

    After a crash, such a file would mark complete .swap files as incomplete, and records would be lost.
    """
    for name in fs.listdir(directory):
        if name.endswith(CLEANED_SUFFIX):
            fs.unlink(f"{directory}/{name}")


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
        _remove_cleaned_files(self._fs, task.directory)
        for source in task.sources:
            if source.end_offset > task.first_dirty_offset and not self._add_source(source):
                return max(offsets.latest_offset + 1, task.first_dirty_offset)
        return task.end_offset

    def _add_source(self, source: SourceSegment) -> bool:
        """Add the keys of one segment; return False if not all of them fit."""
        window, offsets = _Window(), self._offsets
        headers: list[BatchHeader] = []
        payloads: list[BytesLike] = []
        for batch in _batches(self._fs, self._task, source, source.first_dirty_position, self._pace):
            header: BatchHeader = batch.header
            records: BytesLike = b""
            if self._has_keys(batch):
                records = expanded(batch)
                headers.append(header)
                payloads.append(records)
            if window.add(header, records):
                if not self._add(headers, payloads):
                    return False
                offsets.taken_up_to(header.last_offset)
                headers, payloads = [], []
        if not self._add(headers, payloads):
            return False
        offsets.taken_up_to(source.end_offset - 1)
        return True

    def _has_keys(self, batch: CheckedBatch) -> bool:
        header = batch.header
        if header.is_control:
            has_marker = header.record_count and header.has_producer_id
            marker = read_end_transaction_marker(batch.data, 0, header) if has_marker else None
            self._transactions.saw_marker(header, marker)
            return False
        return not self._transactions.saw_data(header) and header.record_count > 0

    def _add(self, headers: Sequence[BatchHeader], payloads: Sequence[BytesLike]) -> bool:
        if not headers:
            return True
        offsets = self._offsets
        columns = read_key_columns(headers, payloads)
        is_added = (columns.key_lengths >= 0) & (columns.offsets >= self._task.first_dirty_offset)
        rows = np.flatnonzero(is_added)
        key_starts, key_lengths = columns.key_starts[rows], columns.key_lengths[rows]
        hashes = offsets.hasher.hashes(columns.data, key_starts, key_lengths)
        record_offsets, batches = columns.offsets[rows], columns.batch[rows]
        if offsets.fits(len(rows)):
            offsets.put(hashes, record_offsets)
            return True
        bounds = np.searchsorted(batches, np.arange(len(headers) + 1)).tolist()
        for header, first, end in zip(headers, bounds[:-1], bounds[1:], strict=True):
            part = slice(first, end)
            if not offsets.put_batch(hashes.rows(part), record_offsets[part]):
                return False
            offsets.taken_up_to(header.last_offset)
        return True


# -- cleaned segments


class GroupCleaner:
    """Writes the groups of one round, in order, and counts the bytes."""

    def __init__(self, fs: FileSystem, task: CleaningTask, offsets: OffsetMap, pace: Pace) -> None:
        self._fs = fs
        self._task = task
        self._offsets = offsets
        self._transactions = CleanedTransactions(task.aborted)
        self._pace = pace
        self.bytes_read = 0
        self.bytes_written = 0

    def clean(self, group: Sequence[SourceSegment]) -> None:
        """Write the cleaned segment of a group: durable, sealed, its files end in `.cleaned`."""
        fs, directory, base_offset = self._fs, self._task.directory, group[0].base_offset
        # The result of an earlier round must be durable before a .cleaned file exists in the directory: it
        # marks every later .swap file as incomplete.
        fs.fsync_dir(directory)
        remove_segment_files(fs, directory, base_offset, CLEANED_SUFFIX)
        cleaned: LogSegment | None = None
        try:
            cleaned = LogSegment(
                fs,
                directory,
                base_offset,
                self._task.config,
                group[-1].created_ms,
                create=True,
                suffix=CLEANED_SUFFIX,
            )
            cleaned.open_for_appending()
            self._fill(cleaned, group)
            cleaned.seal()
            cleaned.sync()
            cleaned.close()
            fs.fsync_dir(directory)
        except BaseException:
            if cleaned is not None:
                cleaned.close()
            with suppress(OSError):
                remove_segment_files(fs, directory, base_offset, CLEANED_SUFFIX)
            raise

    def _fill(self, cleaned: LogSegment, group: Sequence[SourceSegment]) -> None:
        task = self._task
        batch_filter = BatchFilter(
            self._offsets,
            self._transactions,
            task.last_records,
            cleaned.txn_index.append,
            end_offset=task.end_offset,
            now_ms=task.now_ms,
            delete_retention_ms=task.config.delete_retention_ms,
        )
        output = _Output(cleaned, task.io_buffer_bytes, self._pace)
        window, pending = _Window(), list[ClassifiedBatch]()
        last: BatchHeader | None = None
        last_base_offset = cleaned.base_offset
        for source in group:
            for batch in _batches(self._fs, task, source, 0, self._pace):
                last, last_base_offset = batch.header, source.base_offset
                self.bytes_read += len(batch.data)
                treatment = batch_filter.classify(batch)
                records = expanded(batch) if treatment.needs_records else b""
                pending.append(ClassifiedBatch(batch, treatment, records))
                if window.add(last, records):
                    output.write(batch_filter.retained(pending))
                    pending = []
        output.write(batch_filter.retained(pending))
        if last is not None and output.end_offset <= last_base_offset != cleaned.base_offset:
            # After a crash the last batch of a .swap file shows which segments it replaces.
            output.write([emptied(last)])
        self.bytes_written += output.size_bytes


class _Output:
    """Writes batches to a segment, about `buffer_bytes` at a time."""

    def __init__(self, segment: LogSegment, buffer_bytes: int, pace: Pace) -> None:
        self._segment = segment
        self._buffer_bytes = buffer_bytes
        self._pace = pace
        self.end_offset = segment.base_offset
        self.size_bytes = 0

    def write(self, batches: Sequence[RetainedBatch]) -> None:
        """Write all batches."""
        headers: list[BatchHeader] = []
        parts: list[BytesLike] = []
        size_bytes = 0
        for header, data in batches:
            headers.append(header)
            parts.append(data)
            size_bytes += len(data)
            if size_bytes >= self._buffer_bytes:
                self._append(headers, parts, size_bytes)
                headers, parts, size_bytes = [], [], 0
        if headers:
            self._append(headers, parts, size_bytes)

    def _append(self, headers: list[BatchHeader], parts: list[BytesLike], size_bytes: int) -> None:
        self._pace(size_bytes)
        self._segment.append(parts[0] if len(parts) == 1 else b"".join(parts), headers)
        self.end_offset = headers[-1].next_offset
        self.size_bytes += size_bytes
