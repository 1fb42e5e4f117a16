"""Finding offsets by timestamp: time index, then batch headers, then the records of one batch.

The batch is found in one call. Its records are read in steps, as there may be half a million. The log may
change between the steps, so the search for the next batch starts from scratch.

A batch that expands beyond `tidelog.storage.log.record_bounds` counts as one record with its first offset
and its largest timestamp: a reader that starts there misses nothing. The same is true for a batch of the
local log whose records cannot be read. Producers' batches are stored unread, and an invalid one must not make
all look-ups in its partition fail.

I/O: an index search, a scan of headers over about index.interval.bytes, and one batch, which is expanded
within that bound. Errors: OSError, CorruptLog, CorruptIndex.
Source: LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp of Apache Kafka 4.3; KIP-79, KIP-734.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader
from tidelog.protocol.compression import BoundExceeded, Compression, decompress, expand
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.record_skim import RecordSkimmer
from tidelog.protocol.steps import Steps, as_heavy_work, in_thread
from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.record_bounds import LOOKED_UP_BYTES_MAX, RECORDS_MAX, SMALL_BYTES
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segments import Segments


class RecordPlace(NamedTuple):
    """A record's timestamp in ms, its offset and the leader epoch of its batch (-1: none)."""

    timestamp: int
    offset: Offset
    leader_epoch: LeaderEpoch


class FoundBatch(NamedTuple):
    """A batch that may contain the requested record: its header, and all its bytes."""

    header: BatchHeader
    data: bytes | memoryview


class TimestampLookup:
    """Finds records of the local part of one log by timestamp, for ListOffsets."""

    __slots__ = ("_failures", "_offsets", "_segments")

    def __init__(self, segments: Segments, offsets: LogOffsets, failures: LogFailures) -> None:
        self._segments = segments
        self._offsets = offsets
        self._failures = failures

    def first_record_from(
        self, timestamp: int, upper_bound: Offset | None = None
    ) -> Steps[RecordPlace | None]:
        """Return the first record at or after `timestamp`; None if there is none below `upper_bound`.

        The log may be appended to and truncated between the steps. The record existed when its batch was
        found.
        """
        offset = self._offsets.local_log_start_offset
        while True:
            with self._failures.storage_errors("look-up by timestamp"):
                batch = batch_at_or_after(self._segments, timestamp, offset)
            if batch is None or (upper_bound is not None and batch.header.base_offset >= upper_bound):
                return None
            place = yield from first_place(batch, timestamp, offset)
            if place is not None:
                return None if upper_bound is not None and place.offset >= upper_bound else place
            offset = max(batch.header.next_offset, self._offsets.local_log_start_offset)
            yield None

    def newest_record(self) -> Steps[RecordPlace | None]:
        """Return the first record with the largest timestamp (KIP-734); None in a log without timestamps."""
        with self._failures.storage_errors("look-up by timestamp"):
            batch = newest_batch(self._segments)
        if batch is None:
            return None
        return (yield from first_place(batch, batch.header.max_timestamp, batch.header.base_offset))


def batch_at_or_after(segments: Segments, timestamp: int, offset: Offset) -> FoundBatch | None:
    """Return the first batch with a timestamp >= `timestamp`, from the batch that contains `offset` on."""
    for segment in segments.from_offset(offset):
        if segment.max_timestamp < timestamp:
            continue
        _, indexed_offset = segment.time_index.lookup(timestamp)
        start = segment.offset_index.lookup(max(indexed_offset, offset)).position
        for position, header in segment.batches(start):
            if header.max_timestamp >= timestamp and header.last_offset >= offset:
                return _read(segment, position, header)
    return None


def newest_batch(segments: Segments) -> FoundBatch | None:
    """Return the batch with the largest timestamp of the log; None in a log without timestamps."""
    newest = max(segments, key=lambda segment: segment.max_timestamp)
    timestamp = newest.max_timestamp
    start = newest.offset_index.lookup(newest.offset_of_max_timestamp).position
    for position, header in newest.batches(start):
        if header.max_timestamp == timestamp:
            return _read(newest, position, header)
    return None


def _read(segment: LogSegment, position: int, header: BatchHeader) -> FoundBatch:
    return FoundBatch(header, segment.file.pread(header.size_bytes, position))


def first_place(batch: FoundBatch, timestamp: int, from_offset: Offset) -> Steps[RecordPlace | None]:
    """Return the first record of `batch` with a timestamp >= `timestamp`, from `from_offset` on."""
    try:
        return (yield from first_readable_place(batch, timestamp, from_offset))
    except DecodeError:
        return _place_of_all(batch.header, from_offset)


def first_readable_place(batch: FoundBatch, timestamp: int, from_offset: Offset) -> Steps[RecordPlace | None]:
    """Return the same as `first_place`, but raise DecodeError for a damaged batch."""
    try:
        return (yield from _first_place(batch, timestamp, from_offset))
    except BoundExceeded:
        return _place_of_all(batch.header, from_offset)


def _first_place(batch: FoundBatch, timestamp: int, from_offset: Offset) -> Steps[RecordPlace | None]:
    header, data = batch
    if header.record_count > RECORDS_MAX:
        return _place_of_all(header, from_offset)
    payload = memoryview(data)[BATCH_OVERHEAD:]
    if header.compression is Compression.NONE:
        return (yield from _first_record(payload, header, timestamp, from_offset))
    if len(payload) <= SMALL_BYTES:
        try:
            expanded = memoryview(decompress(header.compression, payload, SMALL_BYTES))
            return (yield from _first_record(expanded, header, timestamp, from_offset))
        except BoundExceeded:
            pass
    return (yield from as_heavy_work(_first_place_in_thread(payload, header, timestamp, from_offset)))


def _first_place_in_thread(
    payload: memoryview, header: BatchHeader, timestamp: int, from_offset: Offset
) -> Steps[RecordPlace | None]:
    expanded = yield from in_thread(lambda: expand(header.compression, payload, LOOKED_UP_BYTES_MAX))
    return (yield from _first_record(expanded, header, timestamp, from_offset))


def _place_of_all(header: BatchHeader, from_offset: Offset) -> RecordPlace:
    """Return one place for all records of a batch from `from_offset` on."""
    offset = max(header.base_offset, from_offset)
    return RecordPlace(header.max_timestamp, offset, header.partition_leader_epoch)


def _first_record(
    payload: memoryview, header: BatchHeader, timestamp: int, from_offset: Offset
) -> Steps[RecordPlace | None]:
    skimmer = RecordSkimmer(payload, header)
    first_delta = from_offset - header.base_offset
    while not skimmer.is_at_end:
        skimmed = yield from skimmer.skim()
        if max(skimmed.timestamps) >= timestamp and skimmed.offset_deltas[-1] >= first_delta:
            for found, delta in zip(skimmed.timestamps, skimmed.offset_deltas, strict=True):
                if found >= timestamp and delta >= first_delta:
                    return RecordPlace(found, header.base_offset + delta, header.partition_leader_epoch)
        yield None
    return None
