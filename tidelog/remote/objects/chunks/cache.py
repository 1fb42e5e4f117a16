"""A cache of chunks that fetches chunks ahead of sequential readers.

    requested chunk  cached       -> a slice of it
                     in progress  -> wait for that GET; if no thread has started it, run it here
                     neither      -> one GET here, for this chunk
    read-ahead       runs of adjacent chunks that are neither cached nor in progress; one GET for each run,
                     in the pool

Invariant: cached chunks and those in progress for read-ahead have at most `size` bytes together. Chunks that
were fetched ahead and not read yet have at most half of it, so that many readers do not evict each other's
chunks. Chunks that readers wait for are additional: one chunk or run for each reader. A GET that fails
passes its error to all waiting readers, and its remaining chunks are not cached.

Batches are cut at the ends of chunks, so that the cache cannot verify their checksums. Readers do so, and
report the verified range of each chunk: one range, which grows with adjoining ones. A reader reports only
chunks that were cached before it began to read, because another one may have replaced them since.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import field
from typing import Final

from tidelog.base.bounded_lru import BoundedLru
from tidelog.base.dataclass import dataclass
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.objects.chunks.segment_chunks import Segment, fetch_chunks
from tidelog.remote.objects.chunks.storage import ChunkKey, ChunkStorage, Handle
from tidelog.remote.objects.layout.pieces import Buffer, Pieces
from tidelog.remote.objects.stores.port import SYSTEM_PORTS, ObjectStore, StorePorts
from tidelog.remote.ports.storage_manager import RemoteStorageError

_log = logging.getLogger(__name__)

RUN_BYTES_MAX: Final = 8 * 1024 * 1024
"""The maximum number of original bytes of one GET for read-ahead, unless a single chunk is longer.

A GET needs as much CPU time as the transfer of a megabyte. In a small cache it has at most half of the bytes
that may be fetched ahead.
"""
RANDOM_READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""The maximum number of original bytes that are fetched ahead of a reader that is not sequential."""
FIRST_RUN_BYTES_MAX: Final = 1024 * 1024
"""The maximum number of original bytes of the GET that a reader waits for."""
_UNREAD_BYTES_MAX: Final = 256 * 1024 * 1024
"""The limit of chunks fetched ahead if the cache itself has no limit."""


@dataclass(slots=True)
class _Load:
    """One GET of chunks `first` to `last` of a segment, with a future for each chunk."""

    segment: Segment
    first: int
    last: int
    is_started: bool = False
    chunks: dict[int, Future[Pieces]] = field(default_factory=dict)


@dataclass(slots=True)
class _CachedChunk:
    """A cached chunk, its number in the order of storing, and its verified range within the chunk."""

    handle: Handle
    number: int
    checked_start: int = 0
    checked_end: int = 0

    def add_checked(self, start: int, end: int) -> None:
        """Extend the verified range by an adjoining one; replace it by one that does not adjoin."""
        if start <= self.checked_end and end >= self.checked_start:
            start, end = min(start, self.checked_start), max(end, self.checked_end)
        self.checked_start, self.checked_end = start, end


@dataclass(slots=True)
class ChunkFigures:
    """Counters of a chunk cache, which only increase."""

    hits: int = 0
    """Reads of chunks that were cached."""
    misses: int = 0
    """Reads of chunks that were not cached; some of them were being fetched ahead."""
    prefetches: int = 0
    """Chunks that were fetched ahead."""
    evictions: int = 0
    """Chunks that were removed to make room, or because they had not been used for a while."""


class ChunkCache:
    """Chunks of segments, shared by all readers.

    I/O: GETs in the caller's thread and in `settings.threads` threads of its own.
    Errors: RemoteStorageError; RemoteResourceNotFound.
    """

    def __init__(
        self,
        store: ObjectStore,
        storage: ChunkStorage,
        settings: CacheSettings,
        read_ahead_bytes: int,
        ports: StorePorts = SYSTEM_PORTS,
    ) -> None:
        self.read_ahead_bytes = read_ahead_bytes
        self._store = store
        self._storage = storage
        self._settings = settings
        self._now_ms = ports.clock.monotonic_ms
        self._lock = threading.Lock()
        self._cached: BoundedLru[ChunkKey, _CachedChunk] = BoundedLru(settings.size, settings.retention_ms)
        self.figures = ChunkFigures()
        self.stored_chunks = 0
        """The number of chunks that were cached so far."""
        self._loading: dict[ChunkKey, _Load] = {}
        self._loading_bytes = 0
        self._unread: dict[ChunkKey, int] = {}
        self._unread_bytes = 0
        self._unread_max = _UNREAD_BYTES_MAX if settings.size is None else settings.size // 2
        self._run_bytes_max = min(RUN_BYTES_MAX, self._unread_max // 2)
        self._pool = ports.threads.executor(settings.threads, "tier-read-ahead")

    @property
    def cached_bytes(self) -> int:
        """The size of the cached chunks in bytes."""
        return self._cached.weight

    def slice(self, segment: Segment, index: int, start: int, end: int) -> Buffer:
        """Return the bytes of chunk `index` from `start` to `end` (exclusive), relative to the chunk."""
        key = ChunkKey(segment.keys.log, index)
        while True:
            with self._lock:
                cached = self._cached.get(key, self._now_ms())
                if cached is not None:
                    self.figures.hits += 1
                else:
                    self.figures.misses += 1
                    load, must_run = self._join(segment, key)
                self._count_as_read(key)
            if cached is None:
                break
            if (data := cached.handle.slice(start, end)) is not None:
                return data
            with self._lock:
                if self._cached.get(key, self._now_ms()) is cached:
                    self._cached.remove(key)
        future = load.chunks[index]
        if must_run:
            self._run(load)
        return self._wait(future, segment, index).slice(start, end)

    def read_ahead(
        self, segment: Segment, index: int, needed_end: int = 0, *, is_sequential: bool = False
    ) -> None:
        """Fetch chunks from `index` in the background.

        These are the chunks before the original position `needed_end`, and the next `read_ahead_bytes` for a
        sequential reader (`is_sequential`, or detected by the cache). Another reader causes one GET only. To
        save GETs, nothing is fetched while half of the bytes are cached and a GET would be short.
        """
        started: list[_Load] = []
        with self._lock:
            for first, last in self._missing_runs(segment, index, needed_end, is_sequential):
                run_bytes = self._bytes_of(segment, first, last)
                if self._unread_bytes + run_bytes > self._unread_max:
                    break
                started.append(self._start_load(segment, first, last))
                self.figures.prefetches += last - first + 1
                for number in range(first, last + 1):
                    self._unread[ChunkKey(segment.keys.log, number)] = self._bytes_of(segment, number, number)
                self._unread_bytes += run_bytes
        for load in started:
            try:
                self._pool.submit(self._run_unless_started, load)
            except RuntimeError as error:  # the pool was closed meanwhile
                self._on_failure(load, RemoteStorageError(f"the chunk cache is closed: {error}"))

    def are_checked(self, segment: Segment, start: int, end: int, stored_before: int) -> bool:
        """Return whether all of the range is verified, in chunks that were among the first `stored_before`.

        Positions are those of the log file.
        """
        with self._lock:
            return all(
                cached is not None and cached.checked_start <= first and last <= cached.checked_end
                for cached, first, last in self._cached_parts(segment, start, end, stored_before)
            )

    def record_checked(self, segment: Segment, start: int, end: int, stored_before: int) -> None:
        """Record that the range is verified, for chunks that were among the first `stored_before`."""
        with self._lock:
            for cached, first, last in self._cached_parts(segment, start, end, stored_before):
                if cached is not None:
                    cached.add_checked(first, last)

    def discard(self, segment: Segment, start: int, end: int) -> None:
        """Remove the chunks that overlap the range, because readers found damaged bytes in it."""
        with self._lock:
            numbers = range(segment.index.index_at(start), segment.index.index_at(end - 1) + 1)
            dropped = []
            for key in (ChunkKey(segment.keys.log, number) for number in numbers):
                dropped += self._drop(key)
                load = self._loading.get(key)
                if load is not None and load.chunks[key.number].done():
                    self._end_load(load, key.number)
        _drop_all(dropped)

    def _cached_parts(
        self, segment: Segment, start: int, end: int, stored_before: int
    ) -> Iterator[tuple[_CachedChunk | None, int, int]]:
        """Return the chunks of the range, each with the part that is in the range, relative to the chunk."""
        for number in range(segment.index.index_at(start), segment.index.index_at(end - 1) + 1):
            cached = self._cached.peek(ChunkKey(segment.keys.log, number))
            chunk = segment.index.chunk(number)
            first, last = max(start, chunk.original_position), min(end, chunk.original_end)
            is_earlier = cached is not None and cached.number <= stored_before
            yield (
                cached if is_earlier else None,
                first - chunk.original_position,
                last - chunk.original_position,
            )

    def forget(self, object_key: str) -> None:
        """Remove the cached chunks of a deleted segment."""
        with self._lock:
            evicted = [key for key in self._cached if key.object_key == object_key]
            dropped = [handle for key in evicted for handle in self._drop(key)]
        _drop_all(dropped)

    def close(self) -> None:
        """Stop the threads and drop cached chunks, after GETs in progress have ended."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            waiting = {id(load): load for load in self._loading.values() if not load.is_started}
            dropped = [cached.handle for _, cached in self._cached.shrink(0, self._now_ms())]
        for load in waiting.values():
            self._on_failure(load, RemoteStorageError("the chunk cache is closed"))
        _drop_all(dropped)

    def _join(self, segment: Segment, key: ChunkKey) -> tuple[_Load, bool]:
        """Return the load of the chunk, and whether the caller has to run it."""
        load = self._loading.get(key) or self._start_load(segment, key.number, key.number)
        must_run = not load.is_started
        load.is_started = True
        return load, must_run

    def _start_load(self, segment: Segment, first: int, last: int) -> _Load:
        load = _Load(segment, first, last)
        for number in range(first, last + 1):
            load.chunks[number] = Future()
            self._loading[ChunkKey(segment.keys.log, number)] = load
        self._loading_bytes += self._bytes_of(segment, first, last)
        _drop_all(self._make_room(0))
        return load

    def _run_unless_started(self, load: _Load) -> None:
        with self._lock:
            if load.is_started:
                return
            load.is_started = True
        self._run(load)

    def _run(self, load: _Load) -> None:
        """Fetch the chunks; each chunk is passed to waiting readers and cached as soon as it arrives."""
        try:
            for chunk, data in fetch_chunks(self._store, load.segment, load.first, load.last):
                load.chunks[chunk.number].set_result(data)
                self._store_chunk(load, chunk.number, data)
        except BaseException as error:
            self._on_failure(load, error)

    def _store_chunk(self, load: _Load, number: int, data: Pieces) -> None:
        key = ChunkKey(load.segment.keys.log, number)
        handle = self._storage.store(key, data)
        with self._lock:
            is_discarded = not self._end_load(load, number)
            if handle is None or is_discarded:
                self._count_as_read(key)
                dropped = [] if handle is None else [handle]
            else:
                dropped = self._make_room(len(data))
                self.stored_chunks += 1
                cached = _CachedChunk(handle, self.stored_chunks)
                for evicted, evicted_chunk in self._cached.put(key, cached, len(data), self._now_ms()):
                    self._count_as_read(evicted)
                    self.figures.evictions += 1
                    dropped.append(evicted_chunk.handle)
        _drop_all(dropped)

    def _end_load(self, load: _Load, number: int) -> bool:
        """Return whether `load` was still in progress for the chunk; it is not from now on."""
        key = ChunkKey(load.segment.keys.log, number)
        if self._loading.get(key) is not load:
            return False
        del self._loading[key]
        self._loading_bytes -= self._bytes_of(load.segment, number, number)
        return True

    def _on_failure(self, load: _Load, error: BaseException) -> None:
        with self._lock:
            for number in load.chunks:
                if self._end_load(load, number):
                    self._count_as_read(ChunkKey(load.segment.keys.log, number))
        for future in load.chunks.values():
            if not future.done():
                future.set_exception(error)
        if not isinstance(error, RemoteStorageError):
            name = load.segment.keys.display_name(load.segment.keys.log)
            _log.error("Cannot read chunks %d to %d of %s", load.first, load.last, name, exc_info=error)

    def _wait(self, future: Future[Pieces], segment: Segment, index: int) -> Pieces:
        try:
            return future.result(self._settings.get_timeout_ms / 1000)
        except FutureTimeout:
            name = segment.keys.display_name(segment.keys.log)
            text = f"{name}: chunk {index} was not loaded within {self._settings.get_timeout_ms} ms"
            raise RemoteStorageError(text) from None

    def _make_room(self, size: int) -> list[Handle]:
        """Evict chunks until `size` more bytes fit, together with the chunks in progress."""
        capacity = self._cached.capacity
        weight = None if capacity is None else max(0, capacity - self._loading_bytes - size)
        evicted = self._cached.shrink(weight, self._now_ms())
        self.figures.evictions += len(evicted)
        for key, _ in evicted:
            self._count_as_read(key)
        return [cached.handle for _, cached in evicted]

    def _drop(self, key: ChunkKey) -> list[Handle]:
        self._count_as_read(key)
        return [cached.handle for _, cached in self._cached.remove(key)]

    def _count_as_read(self, key: ChunkKey) -> None:
        """Stop counting the chunk as fetched ahead: it was read or evicted, or its GET failed."""
        self._unread_bytes -= self._unread.pop(key, 0)

    def _missing_runs(
        self, segment: Segment, index: int, needed_end: int, is_sequential: bool
    ) -> list[tuple[int, int]]:
        chunk_size = segment.index.original_chunk_size
        begin = index * chunk_size
        is_sequential = (
            is_sequential
            or index == 0
            or self._was_read(segment, index)
            or self._was_read(segment, index - 1)
        )
        ahead = self.read_ahead_bytes
        if not is_sequential:
            ahead = min(ahead, RANDOM_READ_BYTES_MAX, self._run_bytes_max)
        end = min(segment.size, max(needed_end, begin + ahead))
        if end <= begin:
            return []
        # Chunks arrive in order, so checking one chunk is enough. Waiting until half of them are read makes
        # runs longer, up to the maximum size of one GET.
        sufficient_end = min(end, max(needed_end, begin + ahead // 2, end - self._run_bytes_max + 1))
        if self._is_available(segment, index) and self._is_available(
            segment, max(index, (sufficient_end - 1) // chunk_size)
        ):
            return []
        numbers = range(index, -(-end // chunk_size))
        missing = [number for number in numbers if not self._is_available(segment, number)]
        is_requested = bool(missing) and missing[0] == index
        first_run_max = min(FIRST_RUN_BYTES_MAX, self._run_bytes_max) if is_requested else self._run_bytes_max
        return self._runs(segment, missing, first_run_max)

    def _runs(self, segment: Segment, missing: list[int], first_run_max: int) -> list[tuple[int, int]]:
        """Join adjacent numbers into runs of the maximum size of one GET."""
        runs: list[tuple[int, int]] = []
        run_max = first_run_max
        for number in missing:
            fits = (
                runs and runs[-1][1] == number - 1 and self._bytes_of(segment, runs[-1][0], number) <= run_max
            )
            if fits:
                runs[-1] = (runs[-1][0], number)
            else:
                run_max = self._run_bytes_max if runs else run_max
                runs.append((number, number))
        return runs

    def _is_available(self, segment: Segment, number: int) -> bool:
        key = ChunkKey(segment.keys.log, number)
        return key in self._cached or key in self._loading

    def _was_read(self, segment: Segment, number: int) -> bool:
        key = ChunkKey(segment.keys.log, number)
        return key in self._cached and key not in self._unread

    @staticmethod
    def _bytes_of(segment: Segment, first: int, last: int) -> int:
        return segment.index.chunk(last).original_end - segment.index.chunk(first).original_position


def _drop_all(handles: list[Handle]) -> None:
    for handle in handles:
        handle.drop()
