"""Sequential reads announce segments, and need no index."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from tests.support.logs.partition_logs import append, open_log
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.tier.remote_tier import (
    PARTITION,
    MemoryTier,
    note_copied,
)
from tests.support.tier.tiered_log import CONFIG, TieredLogFixture, fill, fixture_of
from tidelog.protocol.batch import iterate_headers
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture(params=range(4))
async def tiered(request: pytest.FixtureRequest) -> AsyncIterator[TieredLogFixture]:
    log = open_log(CrashFileSystem(), CONFIG)
    fill(log, Random(request.param))
    fixture = await fixture_of(log)
    yield fixture
    fixture.pool.close()


class PrefetchingTier(MemoryTier):
    """Records the segments and the manifests that it is to prefetch."""

    def __init__(self, stored: MemoryTier, read_ahead_bytes: int) -> None:
        super().__init__(segments=stored.segments)
        self.read_ahead_bytes = read_ahead_bytes
        self.announced: list[UUID] = []
        self.manifests: list[UUID] = []
        self.with_transactions: list[UUID] = []

    def prefetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, position: int = 0, *, with_transactions: bool = False
    ) -> None:
        self.announced.append(metadata.remote_log_segment_id.id)
        if with_transactions:
            self.with_transactions.append(metadata.remote_log_segment_id.id)

    def prefetch_manifest(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.manifests.append(metadata.remote_log_segment_id.id)


async def read_all(
    reader: RemoteLogReader, tiered: TieredLogFixture, offset: int, **changes: object
) -> bytes:
    """Return the records from `offset` to the local log, in reads of 300 bytes."""
    records = b""
    while offset < tiered.local.local_log_start_offset:
        read = await reader.read(tiered.request(offset, 300, **changes))
        records += bytes(read.records)
        offset = read.next_offset
    return records


async def test_sequential_reading_announces_each_segment_once(tiered: TieredLogFixture) -> None:
    tier = PrefetchingTier(tiered.tier, read_ahead_bytes=1)
    reader = RemoteLogReader(tier, tiered.manager, tiered.cache, tiered.pool)
    ids = [segment.remote_log_segment_id.id for segment in tiered.segments]
    first = await reader.read(tiered.request(0, 300))
    assert tier.announced == ids[:1], "its first chunks are fetched before the first read requests them"
    await read_all(reader, tiered, first.next_offset)
    assert tier.announced == ids
    assert len(set(tier.manifests)) == len(tier.manifests)


async def test_a_reader_that_begins_with_a_segment_announces_all_within_the_read_ahead(
    tiered: TieredLogFixture,
) -> None:
    sizes = [each.segment_size_bytes for each in tiered.segments]
    tier = PrefetchingTier(tiered.tier, read_ahead_bytes=sum(sizes[:3]))
    reader = RemoteLogReader(tier, tiered.manager, tiered.cache, tiered.pool)
    await reader.read(tiered.request(0, 300))
    ids = [segment.remote_log_segment_id.id for segment in tiered.segments]
    count = len(tier.announced)
    assert count >= 3 and tier.announced == ids[:count], "one segment is too little for a store with latency"
    assert set(ids[count : count + 1]) <= set(tier.manifests), "they are requested before the segments"


async def test_a_reader_that_begins_in_a_segment_announces_nothing_before_its_second_read(
    tiered: TieredLogFixture,
) -> None:
    tier = PrefetchingTier(tiered.tier, read_ahead_bytes=1 << 20)
    reader = RemoteLogReader(tier, tiered.manager, tiered.cache, tiered.pool)
    offset = (await tiered.read(0, 300)).next_offset
    read = await reader.read(tiered.request(offset, 300))
    assert tier.announced == [] and tier.manifests == []
    await reader.read(tiered.request(read.next_offset, 300))
    ids = [segment.remote_log_segment_id.id for segment in tiered.segments]
    assert tier.announced[0] in ids[1:3]


async def test_sequential_reads_from_the_start_of_a_segment_need_no_index(tiered: TieredLogFixture) -> None:
    start = tiered.segments[1].start_offset
    stored = [tiered.tier.segments[each.remote_log_segment_id.id].log for each in tiered.segments[1:]]
    assert await read_all(tiered.reader, tiered, start) == b"".join(stored)
    assert tiered.tier.index_fetches == []


async def test_reads_at_the_same_time_that_continue_one_read_need_no_index(tiered: TieredLogFixture) -> None:
    offset = (await tiered.read(0, 300)).next_offset
    first, second = await asyncio.gather(tiered.read(offset, 300), tiered.read(offset, 300))
    assert bytes(first.records) == bytes(second.records) != b""
    assert tiered.tier.index_fetches == []


async def test_sequential_reads_continue_after_a_gap_that_compaction_left() -> None:
    log = open_log(CrashFileSystem(), CONFIG)
    for number in range(3):
        append(log, f"value {number}")
    log.roll(0)
    tiered = await fixture_of(log)
    (segment,) = tiered.segments
    stored = tiered.tier.segments[segment.remote_log_segment_id.id]
    starts = [position for position, _ in iterate_headers(stored.log)]
    whole = stored.log
    stored.log = whole[: starts[1]] + whole[starts[2] :]
    tier, manager = tiered.tier, InMemoryRemoteLogMetadataManager()
    manager.on_partition_leadership_changes([PARTITION], [])
    shorter = replace(segment, segment_size_bytes=len(stored.log), state=type(segment.state)(0))
    await note_copied(manager, shorter)
    reader = RemoteLogReader(tier, manager, tiered.cache, tiered.pool)
    first = await reader.read(tiered.request(0, 1))
    second = await reader.read(tiered.request(first.next_offset, 1))
    assert (first.next_offset, second.next_offset) == (1, 3)
    assert bytes(second.records) == whole[starts[2] :]
    assert tier.index_fetches == [], "an index has no entry for the batch after the gap"


async def test_transaction_indexes_are_announced_for_read_committed_only(tiered: TieredLogFixture) -> None:
    tier = PrefetchingTier(tiered.tier, read_ahead_bytes=1)
    reader = RemoteLogReader(tier, tiered.manager, tiered.cache, tiered.pool)
    await read_all(reader, tiered, 0)
    assert tier.with_transactions == []
    reader = RemoteLogReader(tier, tiered.manager, tiered.cache, tiered.pool)
    await read_all(reader, tiered, 0, with_aborted=True)
    may_have_aborts = {s.remote_log_segment_id.id for s in tiered.segments if not s.is_txn_index_empty}
    assert set(tier.with_transactions) <= may_have_aborts
