"""The chunk cache: shared fetches, read-ahead, bounds; corrupt and failed chunks are not cached."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tier.object_stores import FailingStore, FailureKind, GatedStore, MemoryStore
from tests.support.tier.segment_configs import compressible
from tests.support.waiting import TIMEOUT_S, wait_until
from tests.unit.remote.objects.chunks.cached_segments import make_cache, put_segment
from tidelog.remote.objects.chunks import cache as chunk_cache_module
from tidelog.remote.objects.chunks.segment_stream import CachedSegmentStream
from tidelog.remote.objects.chunks.storage import ChunkKey, Handle, MemoryStorage
from tidelog.remote.objects.layout.pieces import Pieces
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, RemoteStorageError

LOG = compressible(10_000)


def test_concurrent_readers_of_a_chunk_share_one_get() -> None:
    store = GatedStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(cache.slice, segment, 3, 10 * n, 100) for n in range(8)]
        wait_until(lambda: store.waiting)
        store.gate.set()
        assert [bytes(one.result(TIMEOUT_S)) for one in futures] == [
            LOG[3000 + 10 * n : 3100] for n in range(8)
        ]
    assert len(store.gets()) == 1
    assert (store.gets()[0].start, store.gets()[0].end) == (3000, 3999)
    cache.close()


def test_a_failure_is_raised_in_all_readers_and_not_cached() -> None:
    store = GatedStore()
    segment = put_segment(store, LOG, 1000)
    log = store.objects.pop(segment.keys.log)
    cache = make_cache(store)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(cache.slice, segment, 0, 0, 10) for _ in range(4)]
        wait_until(lambda: store.waiting)
        store.gate.set()
        for one in futures:
            with pytest.raises(RemoteResourceNotFound):
                one.result(TIMEOUT_S)
    assert cache.cached_bytes == cache._loading_bytes == 0
    store.objects[segment.keys.log] = log
    assert cache.slice(segment, 0, 0, 10) == LOG[:10]
    cache.close()


def test_a_truncated_object_is_reported_and_not_cached() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    store.objects[segment.keys.log] = LOG[:4500]
    cache = make_cache(store)
    with pytest.raises(RemoteStorageError, match=r"topic/0/segment.log: chunk 4 at 4000: 500 of 1000 bytes"):
        cache.slice(segment, 4, 0, 10)
    assert cache.cached_bytes == 0
    store.objects[segment.keys.log] = LOG
    assert cache.slice(segment, 4, 0, 10) == LOG[4000:4010]
    cache.close()


def test_adjacent_missing_chunks_are_fetched_by_one_get_per_run() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, read_ahead=10_000)
    cache.slice(segment, 4, 0, 1)
    cache.read_ahead(segment, 1)
    wait_until(lambda: cache.cached_bytes == 9000)
    ranges = sorted((call.start, call.end) for call in store.gets())
    assert ranges == [(1000, 3999), (4000, 4999), (5000, 9999)]
    cache.close()


def test_a_run_is_limited_to_the_maximum_of_one_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_cache_module, "RUN_BYTES_MAX", 3000)
    monkeypatch.setattr(chunk_cache_module, "FIRST_RUN_BYTES_MAX", 1000)
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, read_ahead=10_000)
    cache.read_ahead(segment, 0)
    wait_until(lambda: cache.cached_bytes == 10_000)
    ranges = sorted((call.start, call.end) for call in store.gets())
    assert ranges == [(0, 999), (1000, 3999), (4000, 6999), (7000, 9999)]
    cache.close()


def test_in_a_small_cache_two_gets_share_the_bytes_that_may_be_fetched_ahead() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, read_ahead=4000, size=8000)
    cache.read_ahead(segment, 0)
    wait_until(lambda: cache.cached_bytes == 4000)
    ranges = sorted((call.start, call.end) for call in store.gets())
    assert ranges == [(0, 1999), (2000, 3999)]
    cache.close()


def test_sequential_reading_of_a_segment_needs_few_gets() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 100)
    cache = make_cache(store, read_ahead=5000)
    stream = CachedSegmentStream(cache, segment, 0, segment.size)
    assert b"".join(iter(lambda: stream.read(70), b"")) == LOG
    assert len(store.gets()) <= 8
    assert (
        sum(call.end - call.start + 1 for call in store.gets() if call.start is not None and call.end)
        == 10_000
    )
    cache.close()


def test_read_ahead_resumes_when_half_of_it_is_consumed() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, read_ahead=4000)
    cache.read_ahead(segment, 0)
    wait_until(lambda: cache.cached_bytes == 4000)
    cache.read_ahead(segment, 1)
    cache.read_ahead(segment, 2)
    assert len(store.gets()) == 1
    cache.read_ahead(segment, 3)
    wait_until(lambda: cache.cached_bytes == 7000)
    assert [(call.start, call.end) for call in store.gets()] == [(0, 3999), (4000, 6999)]
    cache.close()


def test_a_random_read_triggers_no_large_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_cache_module, "RUN_BYTES_MAX", 2000)
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, read_ahead=5000)
    CachedSegmentStream(cache, segment, 3100, 3200).read()
    wait_until(lambda: cache.cached_bytes == 2000)
    assert {(call.start, call.end) for call in store.gets()} == {(3000, 4999)}
    # A reader that continues with the following bytes reads ahead.
    CachedSegmentStream(cache, segment, 3200, 3300).read()
    wait_until(lambda: cache.cached_bytes == 5000)
    cache.close()


def test_a_requested_chunk_does_not_wait_for_read_ahead_threads() -> None:
    store = GatedStore()
    one, other = put_segment(store, LOG, 1000, "one"), put_segment(store, LOG, 1000, "other")
    cache = make_cache(store, read_ahead=3000, threads=1)
    cache.read_ahead(one, 0)
    wait_until(lambda: store.waiting == 1)
    cache.read_ahead(other, 0)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(cache.slice, other, 0, 0, 10)
        # The only thread of the cache is busy, so the reader itself has begun the GET that was waiting.
        wait_until(lambda: store.waiting == 2)
        store.gate.set()
        assert future.result(TIMEOUT_S) == LOG[:10]
    wait_until(lambda: cache.cached_bytes == 6000)
    assert len(store.gets()) == 2
    cache.close()


def test_prefetched_chunks_take_at_most_half_of_the_cache() -> None:
    store = GatedStore()
    segments = [put_segment(store, LOG, 1000, f"s{n}") for n in range(5)]
    cache = make_cache(store, size=8000, read_ahead=2000, threads=8)
    for segment in segments:
        cache.read_ahead(segment, 0)
    assert cache._loading_bytes == 4000
    store.gate.set()
    wait_until(lambda: cache.cached_bytes == 4000)
    cache.read_ahead(segments[4], 0)
    assert cache._loading_bytes == 0
    for segment in segments[:2]:
        cache.slice(segment, 0, 0, 1)
        cache.slice(segment, 1, 0, 1)
    cache.read_ahead(segments[4], 0)
    wait_until(lambda: cache.cached_bytes == 6000)
    cache.close()


def test_cached_and_loading_chunks_are_bounded_together() -> None:
    store = GatedStore()
    segment, other = put_segment(store, LOG, 1000), put_segment(store, LOG, 1000, "other")
    cache = make_cache(store, size=5000, read_ahead=2000)
    store.gate.set()
    for number in range(5):
        cache.slice(segment, number, 0, 1)
    assert cache.cached_bytes == 5000
    store.gate.clear()
    cache.read_ahead(other, 0)
    assert cache._loading_bytes == 2000
    assert cache.cached_bytes == 3000
    store.gate.set()
    wait_until(lambda: cache.cached_bytes == 5000)
    cache.close()


def test_a_chunk_larger_than_the_cache_is_not_kept() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, size=999, read_ahead=5000)
    stream = CachedSegmentStream(cache, segment, 0, segment.size)
    assert b"".join(iter(lambda: stream.read(100), b"")) == LOG
    assert cache.cached_bytes == 0
    # A stream keeps its chunk: small reads do not fetch it repeatedly.
    assert len(store.gets()) == 10
    cache.close()


def test_a_slice_of_a_cached_chunk_is_not_copied() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store)
    first, second = cache.slice(segment, 0, 0, 500), cache.slice(segment, 0, 200, 1000)
    assert isinstance(first, memoryview) and isinstance(second, memoryview)
    assert first.obj is second.obj
    stream = CachedSegmentStream(cache, segment, 0, 1000)
    assert stream.read() is first.obj
    cache.close()


def test_only_a_range_across_chunks_is_copied() -> None:
    store = MemoryStore()
    log = bytes(range(250)) * 10
    cache = make_cache(store)
    segment = put_segment(store, log, 1000)
    (within,) = CachedSegmentStream(cache, segment, 100, 900).views(500)
    (again,) = CachedSegmentStream(cache, segment, 200, 900).views(500)
    assert within.obj is again.obj
    assert (bytes(within), bytes(again)) == (log[100:600], log[200:700])
    assert b"".join(CachedSegmentStream(cache, segment, 900, 2500).views(1200)) == log[900:2100]
    assert CachedSegmentStream(cache, segment, 900, 2500).read(1200) == log[900:2100]
    cache.close()


def test_chunks_of_a_deleted_segment_are_removed() -> None:
    store = MemoryStore()
    segment, other = put_segment(store, LOG, 1000), put_segment(store, LOG, 1000, "other")
    cache = make_cache(store)
    for one in (segment, other):
        cache.slice(one, 0, 0, 1)
    cache.forget(segment.keys.log)
    assert cache.cached_bytes == 1000
    cache.close()


def test_a_read_that_waits_too_long_times_out() -> None:
    store = GatedStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, read_ahead=1000, get_timeout_ms=1)
    cache.read_ahead(segment, 0)
    wait_until(lambda: store.waiting)
    with pytest.raises(RemoteStorageError, match="chunk 0 was not loaded within 1 ms"):
        cache.slice(segment, 0, 0, 1)
    store.gate.set()
    cache.close()


def test_close_fails_reads_whose_chunks_are_not_started() -> None:
    store = GatedStore()
    one, other = put_segment(store, LOG, 1000, "one"), put_segment(store, LOG, 1000, "other")
    cache = make_cache(store, read_ahead=1000, threads=1)
    cache.read_ahead(one, 0)
    wait_until(lambda: store.waiting == 1)
    cache.read_ahead(other, 0)
    closing = threading.Thread(target=cache.close)
    closing.start()
    store.gate.set()
    closing.join(TIMEOUT_S)
    assert not closing.is_alive()
    assert cache.cached_bytes == cache._loading_bytes == 0
    cache.read_ahead(one, 5)
    assert cache._loading_bytes == 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(0, 400),
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 499), st.integers(1, 300)), min_size=1, max_size=12),
    st.sets(st.integers(0, 20)),
)
def test_random_reads_return_correct_bytes_or_an_error_within_bounds(
    chunk_size: int,
    size: int,
    read_ahead: int,
    reads: list[tuple[int, int, int]],
    failing: set[int],
) -> None:
    log = compressible(500)
    store = FailingStore(lambda number: FailureKind.SHORT if number in failing else None)
    segments = [put_segment(store, log, chunk_size, name) for name in ("one", "other")]
    cache = make_cache(store, size=size, read_ahead=read_ahead)

    def read(which: int, start: int, length: int) -> None:
        end = min(500, start + length)
        try:
            assert CachedSegmentStream(cache, segments[which], start, end).read() == log[start:end]
        except RemoteStorageError as error:
            assert "segment" in str(error) or ".log" in str(error)
        assert cache.cached_bytes <= size

    with ThreadPoolExecutor(3) as pool:
        for one in [pool.submit(read, *arguments) for arguments in reads]:
            one.result(TIMEOUT_S)
    cache.close()
    assert cache.cached_bytes == cache._loading_bytes == 0


def test_a_chunk_that_is_discarded_before_it_is_stored_is_fetched_again() -> None:
    """A reader finds damage in bytes that it got while the fetching thread still writes them to the disk."""
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    storing, may_store = threading.Event(), threading.Event()

    class SlowStorage(MemoryStorage):
        def store(self, key: ChunkKey, chunk: Pieces) -> Handle | None:
            storing.set()
            assert may_store.wait(TIMEOUT_S)
            return super().store(key, chunk)

    cache = make_cache(store, storage=SlowStorage())
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.slice, segment, 2, 0, 10)
        assert storing.wait(TIMEOUT_S)
        cache.discard(segment, 2500, 2600)
        may_store.set()
        assert bytes(first.result(TIMEOUT_S)) == LOG[2000:2010]
    assert cache.cached_bytes == cache._loading_bytes == 0
    assert bytes(cache.slice(segment, 2, 0, 10)) == LOG[2000:2010]
    assert len(store.gets()) == 2
    assert cache.cached_bytes == 1000
    cache.close()


def test_a_verified_range_counts_only_for_the_chunk_that_was_read() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store)
    for number in range(3):
        cache.slice(segment, number, 0, 1000)
    stored_count = cache.stored_chunks
    cache.record_checked(segment, 500, 1700, stored_count)
    cache.record_checked(segment, 1700, 2100, stored_count)
    assert cache.are_checked(segment, 500, 2100, stored_count)
    assert not cache.are_checked(segment, 499, 2100, stored_count)
    assert not cache.are_checked(segment, 500, 2101, stored_count)
    cache.discard(segment, 1000, 1001)
    cache.slice(segment, 1, 0, 1000)
    assert not cache.are_checked(segment, 1000, 1700, cache.stored_chunks)
    cache.record_checked(segment, 1000, 1700, stored_count)  # by a reader of the discarded bytes
    assert not cache.are_checked(segment, 1000, 1700, cache.stored_chunks)
    assert cache.are_checked(segment, 500, 1000, stored_count)
    cache.close()


def test_hits_misses_prefetches_and_evictions_are_counted() -> None:
    store = MemoryStore()
    segment = put_segment(store, LOG, 1000)
    cache = make_cache(store, size=3000, read_ahead=1000)
    cache.read_ahead(segment, 0, is_sequential=True)
    wait_until(lambda: cache.cached_bytes == 1000)
    for number in (0, 0, 4, 5, 6):
        cache.slice(segment, number, 0, 10)
    figures = cache.figures
    assert (figures.hits, figures.misses, figures.prefetches, figures.evictions) == (2, 3, 1, 1)
    cache.close()
