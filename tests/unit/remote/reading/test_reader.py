"""Remote reads equal those of the local log: bytes, timestamps, aborted transactions."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append, append_marker, open_log
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.tier.remote_tier import (
    PARTITION,
    note_copied,
    segment_metadata,
    store,
)
from tests.support.tier.tiered_log import CONFIG, TieredLogFixture, fill, fixture_of
from tidelog.base.bounded_pool import BoundedPool, PoolFull
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import run_steps
from tidelog.remote.ports.storage_manager import IndexType, RemoteStorageError
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.remote.reading.requests import TimestampSearch
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture(params=range(4))
async def tiered(request: pytest.FixtureRequest) -> AsyncIterator[TieredLogFixture]:
    log = open_log(CrashFileSystem(), CONFIG)
    fill(log, Random(request.param))
    fixture = await fixture_of(log)
    yield fixture
    fixture.pool.close()


# -- offsets


async def test_every_offset_and_size_returns_the_bytes_of_the_local_log(tiered: TieredLogFixture) -> None:
    assert len(tiered.segments) > 4
    random = Random(1)
    end = tiered.segments[-1].end_offset + 1
    for offset in range(end):
        for max_bytes in (0, 1, random.randint(60, 400), random.randint(400, 3000), 1 << 20):
            for at_least_one in (True, False):
                upper_bound = end if random.random() < 0.5 else random.randint(offset, end)
                result = await tiered.read(
                    offset, max_bytes, at_least_one=at_least_one, upper_bound=upper_bound
                )
                expected = tiered.expected_bytes(offset, max_bytes, at_least_one, upper_bound)
                assert bytes(result.records) == expected, (offset, max_bytes, at_least_one, upper_bound)
                headers = [header for _, header in iterate_headers(result.records)]
                assert result.next_offset == (headers[-1].next_offset if headers else offset)


async def test_sequential_reading_returns_all_sealed_segments(tiered: TieredLogFixture) -> None:
    tiered.tier.bytes_at_most = 97
    parts, offset = [], 0
    while offset < tiered.local.local_log_start_offset:
        result = await tiered.read(offset, 700)
        assert result.records
        parts.append(bytes(result.records))
        offset = result.next_offset
    sealed = [segment.file.pread(1 << 30, 0) for segment in list(tiered.log.segments)[:-1]]
    assert b"".join(parts) == b"".join(sealed)


async def test_a_read_requests_one_minimal_range(tiered: TieredLogFixture) -> None:
    await tiered.read(tiered.segments[1].end_offset, 1)
    longest_batch = 2500
    for offset in range(0, tiered.local.local_log_start_offset, 7):
        tiered.tier.ranges.clear()
        await tiered.read(offset, 500)
        assert len(tiered.tier.ranges) <= 2
        for _, start, end in tiered.tier.ranges:
            assert end is not None
            assert end - start < 500 + 2 * (CONFIG.index_interval_bytes + longest_batch)


async def test_a_batch_larger_than_the_requested_size_is_read_completely() -> None:
    log = open_log(CrashFileSystem(), replace(CONFIG, index_interval_bytes=1, segment_bytes=1 << 20))
    for size in (10, 5000, 400_000, 10):
        append(log, "x" * size)
    log.roll(0)
    tiered = await fixture_of(log)
    for offset in range(4):
        result = await tiered.read(offset, 1)
        assert bytes(result.records) == tiered.expected_bytes(offset, 1, True, 4)


async def test_offsets_missing_in_the_tier_are_out_of_range(tiered: TieredLogFixture) -> None:
    with pytest.raises(KafkaError, match="not in remote storage") as raised:
        await tiered.read(tiered.local.local_log_start_offset)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_kafka_15405_unread_remote_metadata_is_a_retriable_error(
    tiered: TieredLogFixture,
) -> None:
    tiered.manager.on_stop_partitions([PARTITION])
    tiered.manager.held_back.add(PARTITION)
    tiered.manager.on_partition_leadership_changes([], [PARTITION])
    with pytest.raises(KafkaError) as raised:
        await tiered.read(0)
    assert raised.value.code is ErrorCode.REPLICA_NOT_AVAILABLE


async def test_a_failing_store_is_an_error_until_it_recovers(tiered: TieredLogFixture) -> None:
    tiered.tier.failure = RemoteStorageError("503 slow down")
    with pytest.raises(KafkaError, match="slow down") as raised:
        await tiered.read(0)
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    tiered.tier.failure = None
    assert (await tiered.read(0)).records


async def test_a_truncated_body_returns_its_complete_batches_or_an_error(tiered: TieredLogFixture) -> None:
    whole = bytes((await tiered.read(0, 1000)).records)
    first = next(iterate_headers(whole))[1].size_bytes
    tiered.tier.cut_after = first + 20
    assert bytes((await tiered.read(0, 1000)).records) == whole[:first]
    tiered.tier.cut_after = first - 1
    with pytest.raises(KafkaError, match="ended at byte") as raised:
        await tiered.read(0, 1000)
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_corrupt_headers_are_corrupt_message_and_never_returned(tiered: TieredLogFixture) -> None:
    stored = tiered.tier.segments[tiered.segments[0].remote_log_segment_id.id]
    for at, value in ((16, 1), (8, 0x7F), (0, 0x10), (23, 0x7F)):
        whole = stored.log
        stored.log = whole[:at] + bytes([value]) + whole[at + 1 :]
        with pytest.raises(KafkaError, match="not a batch of the segment") as raised:
            await tiered.read(0)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
        stored.log = whole


async def test_a_wrong_cached_index_is_fetched_again_when_no_batch_is_found(tiered: TieredLogFixture) -> None:
    stored = {segment_id: stored.indexes for segment_id, stored in tiered.tier.segments.items()}
    segment = next(
        each for each in tiered.segments if stored[each.remote_log_segment_id.id][IndexType.OFFSET]
    )
    last = segment.end_offset
    expected = bytes((await tiered.read(last)).records)
    with tiered.cache.offset_index(segment) as index:
        entry = index.entry(index.entry_count - 1)
        index.file.pwrite((entry.position + 5).to_bytes(4, "big"), 8 * index.entry_count - 4)
    assert bytes((await tiered.read(last)).records) == expected


@pytest.mark.parametrize("by_time", [False, True])
async def test_a_cached_index_that_skips_the_requested_offset_is_fetched_again(
    tiered: TieredLogFixture, by_time: bool
) -> None:
    """A flipped bit in the offset of an entry: it points to a batch, but readers would miss earlier ones."""
    with_entries = []
    for each in tiered.segments:
        with tiered.cache.offset_index(each) as index:
            if index.entry_count > 1:
                with_entries.append(each)
    segment = with_entries[-1]
    offset = segment.start_offset + 1
    search = TimestampSearch(PARTITION, 0, offset, tiered.local)
    expected = bytes((await tiered.read(offset)).records)
    with tiered.cache.offset_index(segment) as index:
        index.file.pwrite((0).to_bytes(4, "big"), 0)
    if by_time:
        place = await tiered.reader.offset_for_timestamp(search)
        assert place is not None and place.offset == offset
    else:
        assert bytes((await tiered.read(offset)).records) == expected


async def test_an_older_kafka_index_with_last_offsets_of_several_batches_is_read() -> None:
    log = open_log(CrashFileSystem(), replace(CONFIG, index_interval_bytes=1, segment_bytes=1 << 20))
    for number in range(40):
        append(log, f"{number:200}")
    log.roll(0)
    tiered = await fixture_of(log)
    stored = tiered.tier.segments[tiered.segments[0].remote_log_segment_id.id]
    whole = stored.indexes[IndexType.OFFSET]
    entries = [struct.unpack_from(">ii", whole, at) for at in range(0, len(whole), 8)]
    stored.indexes[IndexType.OFFSET] = b"".join(
        struct.pack(">ii", entries[at + 9][0], entries[at][1]) for at in range(0, len(entries) - 9, 10)
    )
    for offset in range(40):
        result = await tiered.read(offset, 300)
        assert bytes(result.records) == tiered.expected_bytes(offset, 300, True, 40)
    with tiered.cache.offset_index(tiered.segments[0]) as index:
        assert index.entry_count == 3


async def test_a_read_continues_in_the_next_segment_when_the_offset_is_absent() -> None:
    """A topic that was compacted may have a segment that ends with offsets without a batch."""
    log = open_log(CrashFileSystem(), CONFIG)
    for number in range(3):
        append(log, f"value {number}")
    log.roll(0)
    append(log, "behind")
    log.roll(0)
    tiered = await fixture_of(log)
    first = tiered.segments[0]
    stored = tiered.tier.segments[first.remote_log_segment_id.id]
    ends = [position for position, _ in iterate_headers(stored.log)]
    stored.log = stored.log[: ends[-1]]
    shorter = replace(first, segment_size_bytes=len(stored.log))
    tier, manager = tiered.tier, InMemoryRemoteLogMetadataManager()
    manager.on_partition_leadership_changes([PARTITION], [])
    for metadata in (shorter, tiered.segments[1]):
        await note_copied(manager, replace(metadata, state=type(metadata.state)(0)))
    reader = RemoteLogReader(tier, manager, tiered.cache, tiered.pool)
    result = await reader.read(tiered.request(2))
    assert result.next_offset == 4
    assert bytes(result.records) == tiered.expected_bytes(3, 1000, True, 4)


async def test_remote_reads_stop_at_the_end_of_the_common_lineage() -> None:
    """KIP-405, log divergence: a leader copied records that the log lost in an unclean election."""
    log = open_log(CrashFileSystem(), CONFIG)
    for number in range(6):
        append(log, f"value {number}")
    log.roll(0)
    tiered = await fixture_of(log)
    log.leader_epochs.truncate_from_end(4)
    log.leader_epochs.assign(2, 4)
    assert log.leader_epochs.entries == [EpochEntry(0, 0), EpochEntry(2, 4)]
    result = await tiered.read(1, 1 << 20)
    assert result.next_offset == 4
    with pytest.raises(KafkaError, match="not in remote storage"):
        await tiered.read(4)
    assert await search(tiered, -1, 4) is None


async def test_reads_beyond_the_queue_limit_are_refused(tiered: TieredLogFixture) -> None:
    pool = BoundedPool("reader", 1, 0)
    reader = RemoteLogReader(tiered.tier, tiered.manager, tiered.cache, pool)
    waiting = reader.read(tiered.request(0))
    waiting.send(None)
    with pytest.raises(PoolFull):
        await reader.read(tiered.request(0))
    waiting.close()
    pool.close()


# -- transactions


async def test_aborted_transactions_equal_those_of_the_local_log(tiered: TieredLogFixture) -> None:
    random, aborted_count = Random(3), 0
    for offset in range(tiered.local.local_log_start_offset):
        result = await tiered.read(offset, random.choice((1, 300, 1 << 20)), with_aborted=True)
        expected = tiered.log.aborted_transactions(offset, result.next_offset)
        assert result.aborted_transactions is not None
        assert sorted(result.aborted_transactions) == sorted(expected)
        aborted_count += len(expected)
    assert aborted_count


async def test_kafka_16780_segments_without_aborted_transactions_are_skipped() -> None:
    log = open_log(CrashFileSystem(), CONFIG)
    append(log, "lost", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    for number in range(200):
        append(log, f"value {number}")
    append_marker(log, 5, is_abort=True)
    log.roll(0)
    tiered = await fixture_of(log)
    assert len(tiered.segments) > 5
    (aborted,) = (await tiered.read(0, with_aborted=True)).aborted_transactions or []
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (5, 0, 201)
    requested = [segment_id for segment_id, kind in tiered.tier.index_fetches if kind.value == "transaction"]
    assert requested == [tiered.segments[-1].remote_log_segment_id.id]


async def test_kafka_17801_transactions_that_begin_after_the_read_are_omitted() -> None:
    log = open_log(CrashFileSystem(), replace(CONFIG, segment_bytes=1 << 20))
    for producer in (1, 2):
        append(log, "lost", producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
        append_marker(log, producer, is_abort=True)
    log.roll(0)
    tiered = await fixture_of(log)
    result = await tiered.read(0, 1, with_aborted=True)
    assert [transaction.producer_id for transaction in result.aborted_transactions or []] == [1]


async def test_a_marker_in_the_local_log_is_found(tiered: TieredLogFixture) -> None:
    log = open_log(CrashFileSystem(), CONFIG)
    append(log, "lost", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.roll(0)
    append_marker(log, 5, is_abort=True)
    tiered = await fixture_of(log)
    result = await tiered.read(0, with_aborted=True)
    assert [transaction.last_offset for transaction in result.aborted_transactions or []] == [1]


async def test_a_marker_of_another_lineage_aborts_nothing() -> None:
    log = open_log(CrashFileSystem(), CONFIG)
    append(log, "kept", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 5, is_abort=True)
    log.roll(0)
    tiered = await fixture_of(log)
    log.truncate_to(1, below_high_watermark=True)
    append_marker(log, 5, is_abort=False, leader_epoch=1)
    tiered.local.local_log_start_offset = 1
    result = await tiered.read(0, with_aborted=True)
    assert (result.next_offset, result.aborted_transactions) == (1, [])


# -- timestamps


async def search(tiered: TieredLogFixture, timestamp: int, start: int = 0) -> tuple[int, int, int] | None:
    return await tiered.reader.offset_for_timestamp(
        TimestampSearch(PARTITION, timestamp, start, tiered.local)
    )


async def test_every_timestamp_finds_the_same_record_as_the_local_log(tiered: TieredLogFixture) -> None:
    log, local_start = tiered.log, tiered.local.local_log_start_offset
    for start in (0, 1, local_start // 2, local_start - 1):
        log.advance_log_start_offset(start)
        for timestamp in (*range(900, 9000, 37), NOW_MS, NOW_MS + 1):
            expected = run_steps(log.timestamps.first_record_from(timestamp))
            record = await search(tiered, timestamp, start)
            if expected is None or expected.offset >= local_start:
                assert record is None
            else:
                assert record == expected, (timestamp, start)


async def test_a_timestamp_search_within_the_local_log_does_not_read_the_tier(
    tiered: TieredLogFixture,
) -> None:
    tiered.local.local_log_start_offset = 0
    assert await search(tiered, 0) is None
    assert not tiered.tier.ranges


async def test_a_timestamp_search_finds_the_segment_that_serves_the_offset() -> None:
    """KAFKA-16890: a later leader copied 5-14 again, in other segments; 15-19 are only in 10-19."""
    first, between = (
        log_with_segments_at(CrashFileSystem(), starts) for starts in ((0, 10, 20), (0, 5, 15, 20))
    )
    tiered = await fixture_of(first)
    again = list(between.segments)[1]
    metadata = segment_metadata(between, again)
    assert (metadata.start_offset, metadata.end_offset) == (5, 14)
    store(tiered.tier, between, again, metadata)
    await note_copied(tiered.manager, metadata)
    for offset in range(20):
        record = await search(tiered, 1000 + offset)
        assert record is not None, offset
        assert record[:2] == (1000 + offset, offset)
    tiered.pool.close()


def log_with_segments_at(fs: CrashFileSystem, starts: tuple[int, ...]) -> PartitionLog:
    log = open_log(fs, CONFIG)
    for offset in range(22):
        if offset in starts[1:]:
            log.roll(0)
        append(log, f"value {offset}", timestamps=[1000 + offset])
    assert tuple(segment.base_offset for segment in log.segments) == starts
    return log


async def test_a_batch_that_cannot_be_decompressed_is_corrupt_message() -> None:
    log = open_log(CrashFileSystem(), CONFIG)
    append(log, "x" * 500, compression=Compression.ZSTD)
    log.roll(0)
    tiered = await fixture_of(log)
    stored = tiered.tier.segments[tiered.segments[0].remote_log_segment_id.id]
    stored.log = stored.log[:61] + bytes(len(stored.log) - 61)
    with pytest.raises(KafkaError) as raised:
        await search(tiered, 0)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


# -- followers, read-ahead


async def test_a_follower_reads_epochs_and_producers_of_a_segment(tiered: TieredLogFixture) -> None:
    last = tiered.segments[-1]
    epochs, producers = await tiered.reader.fetch_auxiliary(last)
    assert epochs == tiered.log.leader_epochs.entries_in_range(0, last.end_offset + 1)
    assert producers == b"producers"


async def test_a_follower_gets_an_error_for_a_deleted_segment(tiered: TieredLogFixture) -> None:
    tiered.tier.delete_log_segment_data(tiered.segments[0])
    with pytest.raises(KafkaError):
        await tiered.reader.fetch_auxiliary(tiered.segments[0])


def test_epochs_without_records_are_not_in_a_lineage() -> None:
    from tests.support.tier.segment_metadata import copy_start
    from tidelog.remote.reading.lineage import common_end
    from tidelog.storage.leader_epoch import LeaderEpochCache

    segment = copy_start(1, 0, 99, [(0, 0), (1, 20), (2, 20), (3, 50)])
    assert segment.segment_leader_epochs[1] == EpochEntry(1, 20)
    epochs = LeaderEpochCache.of([EpochEntry(0, 0), EpochEntry(2, 20), EpochEntry(3, 50), EpochEntry(4, 100)])
    assert common_end(segment, epochs, 0) == 100
    assert common_end(segment, LeaderEpochCache.of([EpochEntry(0, 0), EpochEntry(2, 30)]), 0) == 20
    assert common_end(segment, LeaderEpochCache.of([EpochEntry(0, 0), EpochEntry(5, 10)]), 0) == 10
