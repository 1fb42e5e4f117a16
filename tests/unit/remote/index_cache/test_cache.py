"""The index cache: bounds, sharing, restarts, and failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, append_marker, open_log
from tests.support.tier.remote_tier import PARTITION, MemoryTier, segment_metadata, store
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.remote.index_cache import cache as cache_module
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.index_cache.file_names import CachedFile, CachedIndex
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType, RemoteResourceNotFound, RemoteStorageError
from tidelog.storage.disk.files import File
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = log_config(segment_bytes=1000, index_interval_bytes=1, retention_ms=-1)
LARGE = 1 << 30


@pytest.fixture
def log() -> PartitionLog:
    log = open_log(CrashFileSystem(), CONFIG)
    for number in range(80):
        append(log, f"value {number}", timestamps=number)
    append(log, "lost", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 5, is_abort=True)
    log.roll(0)
    return log


@pytest.fixture
def tier() -> MemoryTier:
    return MemoryTier()


@pytest.fixture
def segments(log: PartitionLog, tier: MemoryTier) -> list[RemoteLogSegmentMetadata]:
    segments = []
    for segment in list(log.segments)[:-1]:
        metadata = segment_metadata(log, segment)
        store(tier, log, segment, metadata)
        segments.append(metadata)
    assert len(segments) > 3
    return segments


@pytest.fixture
def fs() -> CrashFileSystem:
    return CrashFileSystem()


def loaded_cache(fs: CrashFileSystem, tier: MemoryTier, size_bytes_max: int = LARGE) -> RemoteIndexCache:
    cache = RemoteIndexCache(fs, "/data", tier, size_bytes_max)
    cache.load()
    return cache


def positions(cache: RemoteIndexCache, metadata: RemoteLogSegmentMetadata) -> list[tuple[int, ...]]:
    with cache.offset_index(metadata) as index:
        return [tuple(entry) for entry in index.entries()]


def test_an_index_is_fetched_once_and_then_read_from_disk(
    log: PartitionLog, segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    for metadata, segment in zip(segments, log.segments, strict=False):
        expected = [tuple(entry) for entry in segment.offset_index.entries()]
        assert expected
        assert positions(cache, metadata) == expected == positions(cache, metadata)
        with cache.time_index(metadata) as index:
            assert list(index.entries()) == list(segment.time_index.entries())
        with cache.transaction_index(metadata) as transactions:
            assert list(transactions.entries()) == list(segment.txn_index.entries())
    assert len(tier.index_fetches) == len(set(tier.index_fetches))


def test_file_names_equal_kafkas(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    positions(cache, segments[1])
    with cache.time_index(segments[1]), cache.transaction_index(segments[1]):
        pass
    stem = f"{segments[1].start_offset}_AAAAAAAAAAAAAAAAAA"
    assert [name[: len(stem)] for name in fs.listdir("/data/remote-log-index-cache")] == [stem] * 3
    assert {name.rpartition(".")[2] for name in fs.listdir("/data/remote-log-index-cache")} == {
        "index",
        "timeindex",
        "txnindex",
    }


def test_other_file_names_are_ignored() -> None:
    file = CachedFile.parse("45_AAAAAAAAAAAAAAAAAAAAAQ.timeindex")
    assert file is not None
    assert (file.start_offset, file.segment_id.int, file.kind) == (45, 1, CachedIndex.TIME)
    assert file.name == "45_AAAAAAAAAAAAAAAAAAAAAQ.timeindex"
    for name in (
        "45_AAAA.index",
        "x_AAAAAAAAAAAAAAAAAAAAAQ.index",
        file.name + ".tmp",
        file.name + ".deleted",
    ):
        assert CachedFile.parse(name) is None


def test_a_segment_without_aborted_transactions_has_no_index_request(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    assert segments[0].is_txn_index_empty
    with cache.transaction_index(segments[0]) as index:
        assert not index.entry_count
    assert not tier.index_fetches
    with cache.transaction_index(replace(segments[1], is_txn_index_empty=False)) as index:
        assert not index.entry_count
    assert [kind for _, kind in tier.index_fetches] == [IndexType.TRANSACTION, IndexType.OFFSET]


def test_a_deleted_segment_is_an_error_and_not_an_empty_transaction_index(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    deleted_segment = replace(segments[1], is_txn_index_empty=False)
    tier.delete_log_segment_data(deleted_segment)
    with pytest.raises(RemoteResourceNotFound), loaded_cache(fs, tier).transaction_index(deleted_segment):
        pass


def test_a_restart_uses_the_existing_files_and_removes_leftovers(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    expected = [positions(cache, metadata) for metadata in segments]
    size_bytes = cache.size_bytes
    cache.close()
    leftover = "/data/remote-log-index-cache/3_AAAAAAAAAAAAAAAAAAAAAQ.index.tmp"
    fs.open(leftover, create=True).close()
    tier.index_fetches.clear()
    reloaded_cache = loaded_cache(fs, tier)
    assert reloaded_cache.size_bytes == size_bytes
    assert [positions(reloaded_cache, metadata) for metadata in segments] == expected
    assert not tier.index_fetches
    assert not fs.exists(leftover)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-3], lambda data: data + bytes(16), lambda data: b"\x7f" * len(data), lambda _: b""],
)
def test_a_damaged_file_is_fetched_again(
    segments: list[RemoteLogSegmentMetadata],
    tier: MemoryTier,
    fs: CrashFileSystem,
    damage: Callable[[bytes], bytes],
) -> None:
    cache = loaded_cache(fs, tier)
    expected = positions(cache, segments[0])
    cache.close()
    (name,) = fs.listdir("/data/remote-log-index-cache")
    file = fs.open(f"/data/remote-log-index-cache/{name}", create=False)
    data = damage(file.pread(file.size(), 0))
    file.truncate(0)
    file.append(data)
    file.close()
    assert positions(loaded_cache(fs, tier), segments[0]) == expected


def test_a_corrupt_remote_index_is_an_error_that_is_not_cached(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    stored = tier.segments[segments[0].remote_log_segment_id.id]
    whole = stored.indexes[IndexType.OFFSET]
    stored.indexes[IndexType.OFFSET] = whole[:-1]
    with pytest.raises(RemoteStorageError, match="damaged index"):
        positions(cache, segments[0])
    stored.indexes[IndexType.OFFSET] = whole
    assert positions(cache, segments[0])


def test_the_least_recently_used_files_are_evicted_beyond_the_size_limit(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    for metadata in segments[:3]:
        positions(cache, metadata)
    positions(cache, segments[0])
    cache.resize(cache.size_bytes - 1)
    tier.index_fetches.clear()
    positions(cache, segments[0])
    assert not tier.index_fetches
    positions(cache, segments[1])
    assert tier.index_fetches
    assert (
        sum(fs.size(f"{cache.directory}/{name}") for name in fs.listdir(cache.directory)) == cache.size_bytes
    )


def test_an_index_in_use_is_not_closed(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    with cache.offset_index(segments[0]) as index:
        entries = list(index.entries())
        cache.resize(1)
        positions(cache, segments[1])
        cache.forget(segments[0])
        cache.close()
        assert list(index.entries()) == entries
    assert not fs.listdir(cache.directory)


def test_an_index_larger_than_the_cache_is_used_and_not_kept(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier, size_bytes_max=1)
    assert positions(cache, segments[0]) == positions(cache, segments[0])
    assert not fs.listdir(cache.directory)
    assert cache.size_bytes == len(cache) == 0


def test_the_number_of_open_files_is_bounded(
    segments: list[RemoteLogSegmentMetadata],
    tier: MemoryTier,
    fs: CrashFileSystem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_files: list[File] = []
    open_file = fs.open

    def open_counted(path: str, *, create: bool) -> File:
        file = open_file(path, create=create)
        close = file.close

        def close_counted() -> None:
            open_files.remove(file)
            close()

        monkeypatch.setattr(file, "close", close_counted)
        open_files.append(file)
        return file

    monkeypatch.setattr(fs, "open", open_counted)
    monkeypatch.setattr(cache_module, "OPEN_FILES_MAX", 2)
    cache = loaded_cache(fs, tier)
    for metadata in segments:
        positions(cache, metadata)
        assert len(open_files) <= 2
    fetched = len(tier.index_fetches)
    for metadata in segments:
        positions(cache, metadata)
    assert len(tier.index_fetches) == fetched
    assert len(open_files) == 2


def test_readers_of_one_segment_share_one_fetch(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    may_continue = threading.Event()

    def wait() -> None:
        assert may_continue.wait(TIMEOUT_S)

    tier.before_index_fetch = wait
    with ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(positions, cache, segments[0]) for _ in range(8)]
        wait_until(lambda: tier.index_fetches)
        may_continue.set()
        assert len({tuple(reader.result(TIMEOUT_S)) for reader in readers}) == 1
    assert len(tier.index_fetches) == 1


def test_a_failed_fetch_is_reported_to_all_waiting_readers(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    tier.failure = RemoteStorageError("the bucket is unavailable")
    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(positions, cache, segments[0]) for _ in range(4)]
        for reader in readers:
            with pytest.raises(RemoteStorageError, match="the bucket is unavailable"):
                reader.result(TIMEOUT_S)
    tier.failure = None
    assert positions(cache, segments[0])


def test_a_full_disk_does_not_prevent_reading(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier
) -> None:
    fs = CrashFileSystem(free_bytes=16)
    cache = loaded_cache(fs, tier)
    expected = positions(loaded_cache(CrashFileSystem(), tier), segments[0])
    assert len(expected) > 2
    assert positions(cache, segments[0]) == expected == positions(cache, segments[0])
    assert len(cache) == 0
    assert not fs.listdir(cache.directory)


def test_indexes_of_a_removed_partition_are_deleted(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    for metadata in segments:
        positions(cache, metadata)
    cache.remove_partition(PARTITION._replace(partition=1))
    assert len(cache) == len(segments)
    cache.remove_partition(PARTITION)
    assert len(cache) == cache.size_bytes == 0
    assert not fs.listdir(cache.directory)


def test_a_closed_cache_refuses_reads(
    segments: list[RemoteLogSegmentMetadata], tier: MemoryTier, fs: CrashFileSystem
) -> None:
    cache = loaded_cache(fs, tier)
    cache.close()
    with pytest.raises(RemoteStorageError, match="closed"):
        positions(cache, segments[0])
