"""Finding offsets by timestamp: time index, then batch headers, then the records of one batch.

I/O: an index search, a scan of headers over about index.interval.bytes, and one batch decompressed,
within a bound. Errors: OSError, CorruptLog, CorruptIndex; DecodeError for a damaged batch.
Source: LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp of Apache Kafka 4.3; KIP-79, KIP-734.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.batch import BatchHeader
from protocol.ids import LeaderEpoch, Offset
from protocol.record import DEFAULT_MAX_DECOMPRESSED_BYTES, Record, read_records
from storage.segment import LogSegment
from storage.segments import Segments


class RecordPlace(NamedTuple):
    """A record's timestamp in ms, its offset and the leader epoch of its batch (-1: none)."""

    timestamp: int
    offset: Offset
    leader_epoch: LeaderEpoch


def first_at_or_after(segments: Segments, timestamp: int, log_start_offset: Offset) -> RecordPlace | None:
    """The first record, by offset, whose timestamp is >= `timestamp`; None when all are older.

    A segment may have such records only below the log start; then the next one is asked.
    """
    for segment in segments.from_offset(log_start_offset):
        if segment.max_timestamp >= timestamp:
            place = _first_in_segment(segment, timestamp, log_start_offset)
            if place is not None:
                return place
    return None


def _first_in_segment(segment: LogSegment, timestamp: int, from_offset: Offset) -> RecordPlace | None:
    _, indexed_offset = segment.time_index.lookup(timestamp)
    start = segment.offset_index.lookup(max(indexed_offset, from_offset)).position
    for position, header in segment.batches(start):
        if header.max_timestamp < timestamp:
            continue
        for record in _records(segment, position, header):
            if record.timestamp >= timestamp and record.offset >= from_offset:
                return RecordPlace(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def newest_record(segments: Segments) -> RecordPlace | None:
    """The first record that has the largest timestamp of the log; None in a log without timestamps."""
    newest = max(segments, key=lambda segment: segment.max_timestamp)
    timestamp, last_offset = newest.last_time_entry()
    start = newest.offset_index.lookup(last_offset).position
    for position, header in newest.batches(start):
        if header.max_timestamp != timestamp:
            continue
        for record in _records(newest, position, header):
            if record.timestamp == timestamp:
                return RecordPlace(timestamp, record.offset, header.partition_leader_epoch)
    return None


def _records(segment: LogSegment, position: int, header: BatchHeader) -> list[Record]:
    data = segment.file.pread(header.size_bytes, position)
    return read_records(data, 0, header, max_decompressed_bytes=DEFAULT_MAX_DECOMPRESSED_BYTES)
