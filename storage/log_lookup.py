"""Finding offsets by timestamp: time index, then batch headers, then the records of one batch.

A batch that expands beyond `storage.record_bounds` answers as a whole, with its first offset and its
largest timestamp: who reads from there misses nothing. So does one of the local log whose records nobody can
read: batches come opaque from producers, and nonsense in one must not end every look-up in its partition.

I/O: an index search, a scan of headers over about index.interval.bytes, and one batch decompressed,
within that bound. Errors: OSError, CorruptLog, CorruptIndex.
Source: LogSegment.findOffsetByTimestamp, FileRecords.searchForTimestamp of Apache Kafka 4.3; KIP-79, KIP-734.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from protocol.batch import BatchHeader
from protocol.compression import BoundExceeded
from protocol.errors import DecodeError
from protocol.ids import LeaderEpoch, Offset
from protocol.record import iterate_payload, read_payload
from storage.record_bounds import LOOKED_UP_BYTES_MAX, RECORDS_MAX
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
        for place in _places(segment, position, header):
            if place.timestamp >= timestamp and place.offset >= from_offset:
                return place
    return None


def newest_record(segments: Segments) -> RecordPlace | None:
    """The first record that has the largest timestamp of the log; None in a log without timestamps."""
    newest = max(segments, key=lambda segment: segment.max_timestamp)
    timestamp, last_offset = newest.last_time_entry()
    start = newest.offset_index.lookup(last_offset).position
    for position, header in newest.batches(start):
        if header.max_timestamp != timestamp:
            continue
        for place in _places(newest, position, header):
            if place.timestamp == timestamp:
                return place
    return None


def _places(segment: LogSegment, position: int, header: BatchHeader) -> Iterator[RecordPlace]:
    try:
        yield from places_in_batch(segment.file.pread(header.size_bytes, position), header)
    except DecodeError:
        yield _place_of_all(header)


def _place_of_all(header: BatchHeader) -> RecordPlace:
    return RecordPlace(header.max_timestamp, header.base_offset, header.partition_leader_epoch)


def places_in_batch(data: bytes | memoryview, header: BatchHeader) -> Iterator[RecordPlace]:
    """Where the records of one batch are; one place for all of them when there are too many to look at.

    Errors: DecodeError for a damaged batch.
    """
    epoch = header.partition_leader_epoch
    try:
        payload = read_payload(data, 0, header, LOOKED_UP_BYTES_MAX)
    except BoundExceeded:
        payload = None
    if payload is None or header.record_count > RECORDS_MAX:
        yield _place_of_all(header)
        return
    for record in iterate_payload(payload, header):
        yield RecordPlace(record.timestamp, record.offset, epoch)
