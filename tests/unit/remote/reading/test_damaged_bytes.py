"""Damaged bytes of the tier are never returned, and a repaired object is read again at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, open_log
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.tier.object_stores import MemoryStore
from tests.support.tier.remote_tier import (
    PARTITION,
    LocalPart,
    MemoryTier,
    copy_sealed_segments,
)
from tests.support.tier.segment_configs import key_pair
from tests.support.tier.segment_metadata import copy_start
from tests.support.tier.settings import manager_settings
from tests.support.waiting import wait_until
from tests.unit.remote.objects.chunks.cached_segments import make_cache
from tidelog.base.bounded_pool import BoundedPool
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.objects.chunks.cache import ChunkCache
from tidelog.remote.objects.chunks.storage import DiskStorage
from tidelog.remote.objects.layout.encryption import KeyRing
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType, LogSegmentData, ReadableStream
from tidelog.remote.reading import batch_stream
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.remote.reading.requests import RemoteReadRequest, TimestampSearch
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

RING = KeyRing("key1", {"key1": key_pair()})
CHUNK_BYTES = 700
"""Less than three batches, so that most chunks begin and end within a batch."""


class CountingStore(MemoryStore):
    """Returns wrong bytes for the next `wrong_gets` requests of log objects."""

    wrong_gets = 0

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return the bytes of a range, with the last one changed if it is to be wrong."""
        if self.wrong_gets and key.endswith(".log"):
            self.wrong_gets -= 1
            whole = self.objects[key]
            at = len(whole) - 1 if end is None else min(end, len(whole) - 1)
            self.objects[key] = flip_byte(whole, at)
            try:
                return super().get(key, start, end)
            finally:
                self.objects[key] = whole
        return super().get(key, start, end)


@dataclass
class Tier:
    """A log, its first sealed segment in an object store, and a reader of the store."""

    log: PartitionLog
    store: CountingStore
    reader: RemoteLogReader
    cache: ChunkCache | None
    local: LocalPart
    segment: RemoteLogSegmentMetadata
    clock: ManualClock

    @property
    def key(self) -> str:
        """The key of the log object."""
        return next(key for key in self.store.objects if key.endswith(".log"))

    async def read(self, offset: int, max_bytes: int = 1 << 20) -> bytes:
        """Return the batches from `offset`."""
        request = RemoteReadRequest(PARTITION, offset, max_bytes, True, 1 << 60, False, self.local)
        return bytes((await self.reader.read(request)).records)

    def expected_bytes(self, offset: int, max_bytes: int = 1 << 20) -> bytes:
        """Return the bytes of the local log."""
        result = self.log.read(offset, max_bytes, upper_bound=1 << 60, at_least_one=True)
        assert result.records is not None
        return result.records.read()


def flip_byte(data: bytes, at: int) -> bytes:
    """Return `data` with one flipped bit."""
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


@pytest.fixture(params=["memory", "disk", "none", "compressed", "encrypted"])
async def tier(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tier]:
    kind = request.param
    log = open_log(CrashFileSystem(), log_config(segment_bytes=1 << 20, index_interval_bytes=600))
    for number in range(40):
        append(log, f"{number:200}", timestamps=[1000 + number])
    log.roll(0)
    store = CountingStore()
    (tmp_path / "chunks").mkdir()
    storage = DiskStorage(tmp_path / "chunks") if kind == "disk" else None
    cache = None if kind == "none" else make_cache(store, storage=storage)
    manager = ObjectStorageManager(
        store,
        manager_settings(
            chunk_size=CHUNK_BYTES,
            compression=kind == "compressed",
            key_ring=RING if kind == "encrypted" else None,
        ),
        cache,
    )
    metadata = InMemoryRemoteLogMetadataManager()
    memory = MemoryTier()
    (segment,) = await copy_sealed_segments(log, memory, metadata)
    manager.copy_log_segment_data(segment, _files(tmp_path, memory, segment))
    index_cache = RemoteIndexCache(CrashFileSystem(), "/data", manager, 1 << 30)
    index_cache.load()
    pool, clock = BoundedPool("reader", 3, 100), ManualClock()
    reader = RemoteLogReader(manager, metadata, index_cache, pool, clock=clock)
    local = LocalPart(log, log.segments.active.base_offset)
    yield Tier(log, store, reader, cache, local, segment, clock)
    pool.close()
    manager.close()


def _files(directory: Path, memory: MemoryTier, segment: RemoteLogSegmentMetadata) -> LogSegmentData:
    stored = memory.segments[segment.remote_log_segment_id.id]
    paths = {}
    for index_type, data in stored.indexes.items():
        paths[index_type] = str(directory / index_type.name)
        (directory / index_type.name).write_bytes(data)
    (directory / "log").write_bytes(stored.log)
    return LogSegmentData(
        log=str(directory / "log"),
        offset_index=paths[IndexType.OFFSET],
        time_index=paths[IndexType.TIMESTAMP],
        producer_snapshot=paths[IndexType.PRODUCER_SNAPSHOT],
        leader_epochs=stored.indexes[IndexType.LEADER_EPOCH],
    )


async def test_a_flipped_bit_is_corrupt_message_and_a_repaired_object_is_read_at_once(tier: Tier) -> None:
    whole = tier.store.objects[tier.key]
    batch_bytes = len(tier.expected_bytes(0, 1))
    for at in range(0, len(whole), 61):
        # As in Apache Kafka, the leader epoch of a batch is not part of its checksum.
        if len(whole) == len(tier.expected_bytes(0)) and 12 <= at % batch_bytes < 16:
            continue
        tier.store.objects[tier.key] = flip_byte(whole, at)
        for _ in range(2):  # the second client must not get the cached bytes
            with pytest.raises(KafkaError) as raised:
                await tier.read(0)
            assert raised.value.code is ErrorCode.CORRUPT_MESSAGE, at
            assert tier.key in str(raised.value)
        tier.store.objects[tier.key] = whole
        assert await tier.read(0) == tier.expected_bytes(0)
        if tier.cache is not None:
            tier.cache.forget(tier.key)


async def test_wrong_bytes_in_one_response_are_read_again_from_the_store(tier: Tier) -> None:
    for offset in range(0, 40, 3):
        tier.store.wrong_gets = 1
        if tier.cache is not None:
            tier.cache.forget(tier.key)
        assert await tier.read(offset, 900) == tier.expected_bytes(offset, 900)


async def test_every_range_is_intact_while_responses_are_wrong_now_and_then(tier: Tier) -> None:
    for number in range(120):
        tier.store.wrong_gets = int(number % 5 == 0)
        offset, max_bytes = number * 7 % 40, 100 + number * 37 % 2500
        assert await tier.read(offset, max_bytes) == tier.expected_bytes(offset, max_bytes)
        if tier.cache is not None and number % 3 == 0:
            tier.cache.forget(tier.key)


async def test_a_damaged_batch_is_not_searched_for_timestamps(tier: Tier) -> None:
    whole = tier.store.objects[tier.key]
    search = TimestampSearch(PARTITION, 1010, 0, tier.local)
    place = await tier.reader.offset_for_timestamp(search)
    assert place is not None and place.offset == 10
    if tier.cache is not None:
        tier.cache.forget(tier.key)
    batch_bytes = len(tier.expected_bytes(0, 1))
    is_transformed = len(whole) != len(tier.expected_bytes(0))
    changed = (
        bytes(byte ^ 1 for byte in whole) if is_transformed else flip_byte(whole, 10 * batch_bytes + 100)
    )
    tier.store.objects[tier.key] = changed
    with pytest.raises(KafkaError) as raised:
        await tier.reader.offset_for_timestamp(search)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    tier.store.objects[tier.key] = whole
    place = await tier.reader.offset_for_timestamp(search)
    assert place is not None and place.offset == 10


@pytest.mark.parametrize("tier", ["memory"], indirect=True)
async def test_the_same_damage_is_logged_once_per_minute(
    tier: Tier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    whole = tier.store.objects[tier.key]
    tier.store.objects[tier.key] = flip_byte(whole, 100)
    for advance_ms in (0, 1000, 61_000):
        tier.clock.now_ms += advance_ms
        with pytest.raises(KafkaError):
            await tier.read(0)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert f"{tier.key}: the checksum of the batch at byte 0, which begins at offset 0, is wrong" in lines[0]


@pytest.mark.parametrize("tier", ["memory", "disk"], indirect=True)
async def test_cached_bytes_are_verified_once_until_they_are_evicted(
    tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []

    def count_calls(data: memoryview) -> int:
        checked.append(len(data))
        return int(crc32c(data))

    monkeypatch.setattr(batch_stream, "crc32c", count_calls)
    await tier.read(0)
    assert len(checked) == 40
    checked.clear()
    cache, chunks = tier.cache, -(-tier.segment.segment_size_bytes // CHUNK_BYTES)
    assert cache is not None
    wait_until(lambda: cache.stored_chunks == chunks)
    await tier.read(0)  # the chunks are in the cache now; the first read passed them on as they arrived
    await tier.read(0)
    await tier.read(7, 1500)
    assert len(checked) == 40
    checked.clear()
    cache.forget(tier.key)
    await tier.read(7, 1500)
    assert checked


@pytest.mark.parametrize("tier", ["memory"], indirect=True)
async def test_concurrent_reads_of_damaged_bytes_never_return_them(tier: Tier) -> None:
    for round_number in range(20):
        tier.store.wrong_gets = 2 + round_number % 3
        results = await asyncio.gather(
            *(tier.read(offset, 1500) for offset in range(0, 40, 8)), return_exceptions=True
        )
        for offset, result in zip(range(0, 40, 8), results, strict=True):
            if isinstance(result, BaseException):
                assert isinstance(result, KafkaError) and result.code is ErrorCode.CORRUPT_MESSAGE
            else:
                assert result == tier.expected_bytes(offset, 1500)
        assert tier.cache is not None
        tier.cache.forget(tier.key)


async def test_damaged_indexes_are_fetched_again_after_they_are_repaired(tier: Tier) -> None:
    key = next(key for key in tier.store.objects if key.endswith(".indexes"))
    whole = tier.store.objects[key]
    # The index of offsets is the first one: each of its entries gets another position.
    tier.store.objects[key] = bytes(
        byte ^ 16 if at % 8 == 7 and at < 64 else byte for at, byte in enumerate(whole)
    )
    offset = 10
    with pytest.raises(KafkaError) as raised:
        await tier.read(offset, 1)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    tier.store.objects[key] = whole
    assert await tier.read(offset, 1) == tier.expected_bytes(offset, 1)


def test_segments_whose_manifest_is_not_cached_have_nothing_to_discard() -> None:
    manager = ObjectStorageManager(MemoryStore(), manager_settings(chunk_size=10))
    metadata = replace(copy_start(0, 0, 9), segment_size_bytes=5)
    manager.discard_cached(metadata, 0, 100)
    assert manager.object_name(metadata).endswith(".log")
    manager.close()
