"""The part of compaction that takes long: filling the offset map, and writing cleaned segments.

It runs in any thread: it reads files of sealed segments and writes `.cleaned` files that only it uses.

I/O: every byte of the segments once, those of the dirty part twice. The checksum of each batch is verified,
so that damage does not get a valid one. Errors: CorruptLog, DecodeError for records that cannot be read;
OSError, StorageFailure of the disk; any exception that `pace` raises. No files remain after an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias, cast

from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.compaction.batch_filter import (
    BatchFilter,
    LastRecord,
    RetainedBatch,
    emptied,
    read_table,
)
from tidelog.storage.compaction.cleaned_transactions import CleanedTransactions
from tidelog.storage.compaction.offset_map import OffsetMap, represented
from tidelog.storage.compaction.plan import CleaningPlan
from tidelog.storage.compaction.segment_groups import SourceSegment, group_segments
from tidelog.storage.disk.log_files import CLEANED_SUFFIX
from tidelog.storage.segment.batch_scan import CheckedBatch, checked_batches
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_files import remove_segment_files

Pace: TypeAlias = Callable[[int], None]
"""Called often with the number of bytes that were read or written; may block, and raise to end the work."""


def fill_offset_map(plan: CleaningPlan, offsets: OffsetMap, pace: Pace) -> Offset:
    """Add the keys of the dirty part to the map while it has space; return the end of what was added."""
    dirty = [source for source in plan.sources if source.end_offset > plan.first_dirty_offset]
    transactions = CleanedTransactions(
        one for one in plan.aborted if one.last_offset >= plan.first_dirty_offset
    )
    for source in dirty:
        segment = source.segment
        start = _first_dirty_position(segment, plan.first_dirty_offset)
        for batch in checked_batches(segment.file.hold(), start, plan.io_buffer_bytes):
            pace(batch.header.size_bytes)
            if not _take_in(batch, offsets, transactions, plan.first_dirty_offset):
                return max(offsets.latest_offset + 1, plan.first_dirty_offset)
            offsets.taken_up_to(batch.header.last_offset)
        offsets.taken_up_to(source.end_offset - 1)
    return plan.end_offset


def _first_dirty_position(segment: LogSegment, first_dirty_offset: Offset) -> int:
    """Return where the dirty part of a segment begins; do not change it, as other threads read it."""
    if first_dirty_offset <= segment.base_offset:
        return 0
    place = segment.find(first_dirty_offset)
    return segment.size_bytes if place is None else place.position


def _take_in(
    batch: CheckedBatch, offsets: OffsetMap, transactions: CleanedTransactions, start_offset: Offset
) -> bool:
    header = batch.header
    if header.is_control:
        marker = None
        if header.record_count and header.has_producer_id:
            marker = read_end_transaction_marker(batch.data, 0, header)
        transactions.saw_marker(header, marker)
        return True
    if transactions.saw_data(header) or not header.record_count:
        return True
    _, table = read_table(batch)
    base_offset = header.base_offset
    record_offsets = [base_offset + delta for delta in table.offset_deltas]
    if not table.has_null_keys and base_offset >= start_offset:
        return offsets.put_all(represented(cast(list[bytes], table.keys)), record_offsets)
    kept = [
        (key, offset)
        for key, offset in zip(table.keys, record_offsets, strict=True)
        if key is not None and offset >= start_offset
    ]
    return offsets.put_all(represented([key for key, _ in kept]), [offset for _, offset in kept])


def groups_to_clean(plan: CleaningPlan, end_offset: Offset) -> list[list[SourceSegment]]:
    """Return the segments with offsets below `end_offset`, grouped by the cleaned segment they become."""
    sources = [source for source in plan.sources if source.segment.base_offset < end_offset]
    return group_segments(sources, plan.config.segment_bytes, plan.config.segment_index_bytes)


class GroupCleaner:
    """Writes the groups of one round, in order, and counts the bytes."""

    def __init__(self, plan: CleaningPlan, offsets: OffsetMap, pace: Pace) -> None:
        self._plan = plan
        self._offsets = offsets
        self._transactions = CleanedTransactions(plan.aborted)
        self._pace = pace
        self.bytes_read = 0
        self.bytes_written = 0

    def clean(
        self, group: Sequence[SourceSegment], last_records: Mapping[ProducerId, LastRecord]
    ) -> LogSegment:
        """Write and return the cleaned segment of a group: durable, sealed, its files end in `.cleaned`."""
        plan, first = self._plan, group[0].segment
        # The result of an earlier round must be durable before a .cleaned file exists in the directory: it
        # marks every later .swap file as incomplete.
        plan.fs.fsync_dir(plan.directory)
        remove_segment_files(plan.fs, plan.directory, first.base_offset, CLEANED_SUFFIX)
        cleaned: LogSegment | None = None
        try:
            cleaned = LogSegment(
                plan.fs,
                plan.directory,
                first.base_offset,
                plan.config,
                group[-1].segment.created_ms,
                create=True,
                suffix=CLEANED_SUFFIX,
            )
            cleaned.open_for_appending()
            self._fill(cleaned, group, last_records)
            cleaned.seal()
            cleaned.sync()
            cleaned.release_descriptors()
            plan.fs.fsync_dir(plan.directory)
        except BaseException:
            if cleaned is not None:
                cleaned.close()
            with suppress(OSError):
                remove_segment_files(plan.fs, plan.directory, first.base_offset, CLEANED_SUFFIX)
            raise
        return cleaned

    def _fill(
        self,
        cleaned: LogSegment,
        group: Sequence[SourceSegment],
        last_records: Mapping[ProducerId, LastRecord],
    ) -> None:
        plan = self._plan
        judge = BatchFilter(
            self._offsets,
            self._transactions,
            last_records,
            cleaned.txn_index.append,
            end_offset=plan.end_offset,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.config.delete_retention_ms,
        )
        output = _Output(cleaned, plan.io_buffer_bytes)
        last: BatchHeader | None = None
        last_base_offset = cleaned.base_offset
        for source in group:
            for batch in checked_batches(source.segment.file.hold(), 0, plan.io_buffer_bytes):
                last, last_base_offset = batch.header, source.segment.base_offset
                size_bytes = batch.header.size_bytes
                self.bytes_read += size_bytes
                self._pace(size_bytes)
                retained = judge.retained(batch)
                if retained is not None:
                    self.bytes_written += len(retained.data)
                    self._pace(len(retained.data))
                    output.add(retained)
        if last is not None and output.end_offset <= last_base_offset != cleaned.base_offset:
            # After a crash the last batch of a .swap file shows which segments it replaces.
            output.add(emptied(last))
        output.write()


class _Output:
    """A buffer of batches that are written to a segment many at a time."""

    def __init__(self, segment: LogSegment, buffer_bytes: int) -> None:
        self._segment = segment
        self._buffer_bytes = buffer_bytes
        self.end_offset = segment.base_offset
        self._headers: list[BatchHeader] = []
        self._data = bytearray()

    def add(self, batch: RetainedBatch) -> None:
        """Copy one batch to the buffer; a view would keep the whole chunk that was read."""
        self.end_offset = batch.header.next_offset
        self._headers.append(batch.header)
        self._data += batch.data
        if len(self._data) >= self._buffer_bytes:
            self.write()

    def write(self) -> None:
        """Write the buffered batches."""
        if self._headers:
            self._segment.append(self._data, self._headers)
            self._headers, self._data = [], bytearray()
