"""Batches are found by their headers, and damaged headers hide no records."""

from __future__ import annotations

import io
import struct

import pytest

from tests.support.logs.partition_logs import batch
from tests.support.tier.segment_metadata import copy_start
from tidelog.remote.ports.storage_manager import DamagedSegment
from tidelog.remote.reading.batch_stream import BatchStream

RECORDS = 5
BATCHES = 4
LAST_OFFSET_DELTA_AT = 23
BATCH = len(batch(["v" * 300] * RECORDS))
FIRST_READS = pytest.mark.parametrize("first_read", [61, 100, BATCH, BATCH + 61, 2 * BATCH + 7, 1 << 20])
"""The next header is in the first read, begins there, or comes after it."""


def stream_of(data: bytes, end_offset: int = RECORDS * BATCHES - 1) -> BatchStream:
    metadata = copy_start(1, 0, end_offset, size_bytes=len(data))
    return BatchStream(metadata, io.BytesIO(data), 0, 0, lambda: "segment")


def segment_without(*removed: int) -> bytearray:
    """Return the bytes of all batches except `removed`, as compaction leaves them."""
    batches = (
        batch(["v" * 300] * RECORDS, base_offset=RECORDS * number)
        for number in range(BATCHES)
        if number not in removed
    )
    return bytearray(b"".join(batches))


def end_earlier(data: bytearray, number: int, last_offset_delta: int) -> None:
    """Damage the last offset of a batch, so that it seems to end before its last records."""
    struct.pack_into(">i", data, number * BATCH + LAST_OFFSET_DELTA_AT, last_offset_delta)


@FIRST_READS
@pytest.mark.parametrize("number", range(BATCHES))
def test_a_damaged_last_offset_of_a_skipped_batch_hides_no_records(number: int, first_read: int) -> None:
    """The last batch has no successor: the stream ends before the offset."""
    data = segment_without()
    end_earlier(data, number, 1)
    offset = RECORDS * number + 3
    with pytest.raises(DamagedSegment, match=f"batch at byte {number * BATCH}, .* is wrong"):
        stream_of(bytes(data)).first_reaching(offset, first_read)


@FIRST_READS
def test_the_first_batch_after_compacted_offsets_is_found(first_read: int) -> None:
    span = stream_of(bytes(segment_without(1, 2))).first_reaching(RECORDS, first_read)
    assert span is not None and (span.position, span.base_offset) == (BATCH, 3 * RECORDS)
    assert stream_of(bytes(segment_without(2, 3))).first_reaching(2 * RECORDS, first_read) is None


@FIRST_READS
def test_a_search_from_batch_to_batch_stops_at_a_damaged_last_offset(first_read: int) -> None:
    data = segment_without()
    end_earlier(data, 1, 1)
    batches = stream_of(bytes(data))
    for offset in (0, RECORDS):
        span = batches.first_reaching(offset, first_read)
        assert span is not None
    with pytest.raises(DamagedSegment, match="is wrong"):
        batches.first_reaching(span.last_offset + 1, first_read)


def test_skipped_batches_are_not_verified_if_a_batch_contains_the_offset() -> None:
    data = segment_without()
    data[BATCH - 1] ^= 1
    span = stream_of(bytes(data)).first_reaching(RECORDS + 1, 1 << 20)
    assert span is not None and span.position == BATCH
