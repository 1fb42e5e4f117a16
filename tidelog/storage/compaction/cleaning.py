"""The part of compaction that takes long: filling the offset map, and writing segments anew.

Runs in any thread: it reads files of sealed segments and writes `.cleaned` files that nobody else knows of.

I/O: every byte of the segments once, those of the dirty part twice; the checksum of each batch is looked at,
so that damage does not get a new one. Errors: CorruptLog, DecodeError for records that nobody can read;
OSError, StorageFailure as the disk gives them; what `pace` raises to end it. Nothing is left behind then.
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
"""Hears of bytes that were read or written, often; may block, and raise to end the work."""


def fill_offset_map(plan: CleaningPlan, offsets: OffsetMap, pace: Pace) -> Offset:
    """Take the dirty part into the map, as far as it has room; the offset up to which that is (exclusive)."""
    dirty = [source for source in plan.sources if source.end_offset > plan.first_dirty_offset]
    transactions = CleanedTransactions(
        one for one in plan.aborted if one.last_offset >= plan.first_dirty_offset
    )
    for source in dirty:
        segment = source.segment
        start = _first_dirty_position(segment, plan.first_dirty_offset)
        for batch in checked_batches(segment.file.held(), start, plan.io_buffer_bytes):
            pace(batch.header.size_bytes)
            if not _take_in(batch, offsets, transactions, plan.first_dirty_offset):
                return max(offsets.latest_offset + 1, plan.first_dirty_offset)
            offsets.taken_up_to(batch.header.last_offset)
        offsets.taken_up_to(source.end_offset - 1)
    return plan.end_offset


def _first_dirty_position(segment: LogSegment, first_dirty_offset: Offset) -> int:
    """Where the dirty part of a segment begins; changes nothing of it, as others read it meanwhile."""
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
    """The segments that have something below `end_offset`, those together that become one."""
    sources = [source for source in plan.sources if source.segment.base_offset < end_offset]
    return group_segments(sources, plan.config.segment_bytes, plan.config.segment_index_bytes)


class GroupCleaner:
    """Writes the groups of one round, in order; bytes and records that went through are counted."""

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
        """The segment in the place of a group: durable, sealed, its files with the suffix `.cleaned`."""
        plan, first = self._plan, group[0].segment
        # What an earlier round has put in place must be durable before there is a .cleaned file beside it,
        # which says of every later .swap that it is unfinished.
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
                roll_jitter_ms=first.roll_jitter_ms,
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
            for batch in checked_batches(source.segment.file.held(), 0, plan.io_buffer_bytes):
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
            # After a crash a start knows by the last batch of a .swap which segments it replaces.
            output.add(emptied(last))
        output.write()


class _Output:
    """Batches on their way into a segment, written many at a time."""

    def __init__(self, segment: LogSegment, buffer_bytes: int) -> None:
        self._segment = segment
        self._buffer_bytes = buffer_bytes
        self.end_offset = segment.base_offset
        self._headers: list[BatchHeader] = []
        self._data = bytearray()

    def add(self, batch: RetainedBatch) -> None:
        """Take a copy of one batch: a view would keep all that was read with it."""
        self.end_offset = batch.header.next_offset
        self._headers.append(batch.header)
        self._data += batch.data
        if len(self._data) >= self._buffer_bytes:
            self.write()

    def write(self) -> None:
        """Write what was taken."""
        if self._headers:
            self._segment.append(self._data, self._headers)
            self._headers, self._data = [], bytearray()
