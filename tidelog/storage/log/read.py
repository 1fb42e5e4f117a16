"""Reading a log by offset: which bytes of which segment, without reading the bytes.

A result is a sequence of complete batches of one segment. It starts with the batch that contains the
requested offset (which may begin before it) and ends before the upper bound.

I/O: none near the end of the log, where batch starts are cached; else an index search and a short
scan of headers. Errors: OSError, CorruptLog, CorruptIndex.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BATCH_OVERHEAD, read_header
from tidelog.protocol.ids import Offset
from tidelog.storage.segment.file_slice import FileSlice
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segments import Segments
from tidelog.storage.segment.txn_index import AbortedTransaction


@dataclass(slots=True)
class ReadResult:
    """The result of one read of a partition, with the offsets for the response."""

    high_watermark: Offset
    log_start_offset: Offset
    last_stable_offset: Offset
    records: FileSlice | None
    """None if there is nothing to read below the upper bound."""
    aborted_transactions: list[AbortedTransaction] | None
    """None unless they were requested."""


class SegmentRange(NamedTuple):
    """Complete batches of one segment: [`start`, `end`) in bytes, ending before `end_offset`."""

    segment: LogSegment
    start: int
    end: int
    end_offset: Offset


def find_range(
    segments: Segments, offset: Offset, max_bytes: int, upper_bound: Offset, at_least_one: bool
) -> SegmentRange | None:
    """Return the batches from `offset` on, below `upper_bound`; None if there are none.

    The range has at most `max_bytes`, but with `at_least_one` the first batch is included regardless of its
    size. The range is empty (start == end) if the first batch does not fit.
    """
    segment = segments.floor(offset)
    while segment is not None and segment.base_offset < upper_bound:
        start = segment.position_of(offset)
        if start < segment.size_bytes:
            return _range_in(segments, segment, start, max_bytes, upper_bound, at_least_one)
        segment = segments.higher(segment.base_offset)
    return None


def _range_in(
    segments: Segments,
    segment: LogSegment,
    start: int,
    max_bytes: int,
    upper_bound: Offset,
    at_least_one: bool,
) -> SegmentRange:
    limit, end_offset = readable_end(segments, segment, upper_bound)
    if limit <= start:
        return SegmentRange(segment, start, start, end_offset)
    if limit - start <= max_bytes:
        return SegmentRange(segment, start, limit, end_offset)
    end, end_offset = segment.boundary_at_or_before(start + max_bytes, start)
    if end == start and at_least_one:
        header = read_header(segment.file.pread(BATCH_OVERHEAD, start))
        end, end_offset = start + header.size_bytes, header.next_offset
    if end > start:
        segment.remember_boundary(end_offset, end)
    return SegmentRange(segment, start, end, end_offset)


def readable_end(segments: Segments, segment: LogSegment, upper_bound: Offset) -> tuple[int, Offset]:
    """Return the position at which readers of `segment` must stop, and the offset there.

    Readers do not pass `upper_bound`.
    """
    following = segments.higher(segment.base_offset)
    if following is not None and upper_bound >= following.base_offset:
        return segment.size_bytes, following.base_offset
    return segment.position_of(upper_bound), upper_bound


def readable_bytes(segments: Segments, offset: Offset, upper_bound: Offset) -> int:
    """Return the bytes of the batches from the one that contains `offset` to `upper_bound`."""
    if offset >= upper_bound:
        return 0
    first = segments.floor(offset)
    if first is None:
        return 0
    total = -first.position_of(offset)
    for segment in segments.from_offset(offset):
        end, end_offset = readable_end(segments, segment, upper_bound)
        total += end
        if end_offset >= upper_bound:
            break
    return max(total, 0)


def aborted_transactions(segments: Segments, start: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap [`start`, `upper_bound`); readers drop their records.

    Their markers may be in later segments, so the indexes are read until one shows that no more can follow.
    """
    found: list[AbortedTransaction] = []
    for segment in segments.from_offset(start):
        transactions, complete = segment.txn_index.collect(start, upper_bound)
        found += transactions
        if complete:
            break
    return found
