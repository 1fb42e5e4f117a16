"""Search for a record by timestamp in one remote segment: time index, offset index, then headers and records.

I/O: blocks; called from reader threads, which pause often during the search, so that the event loop can run.
Bounds: one piece of the segment, and one batch with its decompressed size within
`tidelog.storage.log.record_bounds`.
Errors: RemoteStorageError, DamagedSegment, ShortSegment.
Source: RemoteLogManager.lookupTimestamp of Apache Kafka 4.3; KIP-405, KIP-1075.
"""

from __future__ import annotations

import time
from typing import Final, TypeVar

from tidelog.base.clock import Clock
from tidelog.protocol.batch import BATCH_OVERHEAD, read_header
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.protocol.steps import Steps
from tidelog.remote.index_cache.segment_indexes import SegmentIndexes
from tidelog.remote.ports.storage_manager import DamagedSegment, RemoteStorageManager
from tidelog.remote.reading.batch_stream import (
    PIECE_BYTES,
    BatchSpan,
    BatchStream,
    ShortSegment,
)
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.remote.reading.segment_read import SegmentBytes, SegmentSource
from tidelog.storage.log.lookup import FoundBatch, RecordPlace, first_readable_place

T = TypeVar("T")

_WORK_NS: Final = 500_000
_PAUSE_S: Final = 0.000_25


class TimestampReader:
    """Searches timestamps through the index cache."""

    def __init__(self, storage: RemoteStorageManager, index_cache: SegmentIndexes, clock: Clock) -> None:
        self._source = SegmentSource(storage)
        self._index_cache = index_cache
        self._clock = clock

    def first_at_or_after(self, part: SegmentPart, timestamp: int) -> RecordPlace | None:
        """Return the first record of `part` whose timestamp is >= `timestamp`, None if there is none."""
        try:
            return self._search(part, timestamp)
        except (DamagedSegment, ShortSegment):
            self._index_cache.forget(part.metadata)
            return self._search(part, timestamp)

    def _search(self, part: SegmentPart, timestamp: int) -> RecordPlace | None:
        metadata, start_offset, end_offset = part
        with self._index_cache.time_index(metadata) as time_index:
            indexed_offset = time_index.lookup(timestamp).offset
        offset = max(indexed_offset, start_offset)
        with self._index_cache.offset_index(metadata) as index:
            found_offset, position = index.lookup(offset)
        with SegmentBytes(self._source, metadata, position, position + PIECE_BYTES) as stream:
            batches = BatchStream(metadata, stream, position, found_offset, stream.name)
            while True:
                span = batches.first_reaching(offset, PIECE_BYTES)
                if span is None or span.base_offset >= end_offset:
                    return None
                place = self._first_place(timestamp, start_offset, batches, span)
                if place is not None and place.offset < end_offset:
                    return place
                offset = span.last_offset + 1

    def _first_place(
        self, timestamp: int, from_offset: Offset, batches: BatchStream, span: BatchSpan
    ) -> RecordPlace | None:
        """Return the first record of one batch at or after `timestamp`.

        The records of an older batch are not read.
        """
        header = read_header(batches.data_from(span.position, BATCH_OVERHEAD))
        if header.max_timestamp < timestamp:
            return None
        data = batches.data_from(span.position, span.size_bytes)
        if len(data) < span.size_bytes:
            raise ShortSegment(
                f"the batch of {span.size_bytes} bytes at byte {span.position} of a remote segment ended "
                f"after {len(data)} bytes"
            )
        batches.check(data, span.position)
        try:
            return _with_pauses(
                self._clock, first_readable_place(FoundBatch(header, data), timestamp, from_offset)
            )
        except DecodeError as error:
            raise DamagedSegment(f"the batch at byte {span.position} of a remote segment: {error}") from error


def _with_pauses(clock: Clock, steps: Steps[T]) -> T:
    """Return the result of `steps`, run in this thread with pauses, in which other threads run."""
    step_result = None
    paused_ns = clock.monotonic_ns()
    while True:
        try:
            step = steps.send(step_result)
        except StopIteration as end:
            result: T = end.value
            return result
        step_result = step() if callable(step) else None
        if clock.monotonic_ns() - paused_ns > _WORK_NS:
            time.sleep(_PAUSE_S)
            paused_ns = clock.monotonic_ns()
