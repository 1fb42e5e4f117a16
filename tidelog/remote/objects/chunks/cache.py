"""Chunks that were read are kept; chunks that will be read are fetched before they are asked for.

    wanted chunk  kept          -> a slice of it
                  under way     -> wait for that GET; if no thread has begun it, run it here
                  neither       -> one GET here, for this chunk
    read-ahead    runs of adjacent chunks that are neither kept nor under way, a GET for each run, in the pool

Invariant: kept chunks and those under way for read-ahead weigh at most `size` together; chunks read ahead
that nobody has read yet at most half of it, so that many readers do not throw out each other's. What
readers wait for comes on top: a chunk or run for each of them.
A GET that fails gives its failure to all who wait for it, and nothing of it is kept.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Final

from tidelog.base.bounded_lru import BoundedLru
from tidelog.base.clock import SystemClock
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.objects.chunks.places import ChunkKey, ChunkPlaces, Handle
from tidelog.remote.objects.chunks.segment_chunks import Segment, fetch_chunks
from tidelog.remote.objects.layout.pieces import Buffer, Pieces
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.storage_manager import RemoteStorageError

_log = logging.getLogger(__name__)

RUN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Original bytes that one GET of read-ahead fetches at most, unless a single chunk is longer."""
FIRST_RUN_BYTES_MAX: Final = 1024 * 1024
"""The same for the run that a reader waits for."""
_UNREAD_BYTES_MAX: Final = 256 * 1024 * 1024
"""The limit of what is read ahead when the cache itself has none."""


@dataclass(slots=True)
class CacheFigures:
    """What has happened since the start."""

    hits: int = 0
    misses: int = 0
    gets: int = 0
    fetched_bytes: int = 0
    failures: int = 0


@dataclass(slots=True)
class _Load:
    """One GET: chunks `first` to `last` of a segment, and who waits for them."""

    segment: Segment
    first: int
    last: int
    is_started: bool = False
    chunks: dict[int, Future[Pieces]] = field(default_factory=dict)


class ChunkCache:
    """Chunks of segments, shared by all readers.

    I/O: GETs in the caller's thread and in `settings.threads` threads of its own.
    Errors: RemoteStorageError; RemoteResourceNotFound.
    """

    def __init__(
        self,
        store: ObjectStore,
        places: ChunkPlaces,
        settings: CacheSettings,
        read_ahead_bytes: int,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.read_ahead_bytes = read_ahead_bytes
        self.figures = CacheFigures()
        self._store = store
        self._places = places
        self._settings = settings
        self._now_ms = now_ms or SystemClock().monotonic_ms
        self._lock = threading.Lock()
        self._kept: BoundedLru[ChunkKey, Handle] = BoundedLru(settings.size, settings.retention_ms)
        self._loading: dict[ChunkKey, _Load] = {}
        self._loading_bytes = 0
        self._unread: dict[ChunkKey, int] = {}
        self._unread_bytes = 0
        self._unread_max = _UNREAD_BYTES_MAX if settings.size is None else settings.size // 2
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="tier-read-ahead")

    @property
    def kept_bytes(self) -> int:
        """Bytes of the chunks that are kept."""
        return self._kept.weight

    @property
    def loading_bytes(self) -> int:
        """Bytes of the chunks that are under way."""
        return self._loading_bytes

    def slice(self, segment: Segment, index: int, start: int, end: int) -> Buffer:
        """The bytes of chunk `index` from `start` to `end` (exclusive), counted from its first byte."""
        key = ChunkKey(segment.keys.log, index)
        while True:
            with self._lock:
                handle = self._kept.get(key, self._now_ms())
                if handle is None:
                    self.figures.misses += 1
                    load, is_mine = self._join(segment, key)
                self._note_read(key)
            if handle is None:
                break
            if (data := handle.slice(start, end)) is not None:
                self.figures.hits += 1
                return data
            with self._lock:
                if self._kept.get(key, self._now_ms()) is handle:
                    self._kept.remove(key)
        waited_for = load.chunks[index]
        if is_mine:
            self._run(load)
        return self._wait(waited_for, segment, index).slice(start, end)

    def read_ahead(self, segment: Segment, index: int, needed_end: int = 0, *, goes_on: bool = False) -> None:
        """Have chunks from `index` on fetched, in the background.

        Wanted are those before the original position `needed_end`, and `read_ahead_bytes` from `index` on
        when somebody reads on there (`goes_on`, or the cache sees it); a look-up gets one GET only. To spare
        GETs nothing is done as long as half of that is there and a GET would be a short one.
        """
        begun: list[_Load] = []
        with self._lock:
            for first, last in self._missing_runs(segment, index, needed_end, goes_on):
                begun_bytes = self._bytes_of(segment, first, last)
                if self._unread_bytes + begun_bytes > self._unread_max:
                    break
                begun.append(self._begin(segment, first, last))
                for number in range(first, last + 1):
                    self._unread[ChunkKey(segment.keys.log, number)] = self._bytes_of(segment, number, number)
                self._unread_bytes += begun_bytes
        for load in begun:
            try:
                self._pool.submit(self._run_unless_started, load)
            except RuntimeError as error:  # closed meanwhile
                self._fail(load, RemoteStorageError(f"the chunk cache is closed: {error}"))

    def forget(self, object_key: str) -> None:
        """Drop what is kept of a segment that was deleted."""
        with self._lock:
            gone = [key for key in self._kept if key.object_key == object_key]
            dropped = [handle for key in gone for handle in self._drop(key)]
        _drop_all(dropped)

    def close(self) -> None:
        """End the threads and drop what is kept; GETs under way end first."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            waiting = {id(load): load for load in self._loading.values() if not load.is_started}
            dropped = [handle for _, handle in self._kept.shrink(0, self._now_ms())]
        for load in waiting.values():
            self._fail(load, RemoteStorageError("the chunk cache is closed"))
        _drop_all(dropped)

    def _join(self, segment: Segment, key: ChunkKey) -> tuple[_Load, bool]:
        """Who fetches the chunk, and whether that is the caller."""
        load = self._loading.get(key) or self._begin(segment, key.number, key.number)
        is_mine = not load.is_started
        load.is_started = True
        return load, is_mine

    def _begin(self, segment: Segment, first: int, last: int) -> _Load:
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
        """Fetch; every chunk is given to those who wait as it arrives, and kept."""
        self.figures.gets += 1
        try:
            for chunk, data in fetch_chunks(self._store, load.segment, load.first, load.last):
                load.chunks[chunk.number].set_result(data)
                self._keep(ChunkKey(load.segment.keys.log, chunk.number), data)
        except BaseException as error:
            self._fail(load, error)

    def _keep(self, key: ChunkKey, data: Pieces) -> None:
        handle = self._places.keep(key, data)
        with self._lock:
            self.figures.fetched_bytes += len(data)
            self._loading.pop(key, None)
            self._loading_bytes -= len(data)
            if handle is None:
                self._note_read(key)
                return
            dropped = self._make_room(len(data))
            for gone, gone_handle in self._kept.put(key, handle, len(data), self._now_ms()):
                self._note_read(gone)
                dropped.append(gone_handle)
        _drop_all(dropped)

    def _fail(self, load: _Load, error: BaseException) -> None:
        with self._lock:
            self.figures.failures += 1
            for number in load.chunks:
                key = ChunkKey(load.segment.keys.log, number)
                if self._loading.get(key) is load:
                    del self._loading[key]
                    self._loading_bytes -= self._bytes_of(load.segment, number, number)
                    self._note_read(key)
        for waited_for in load.chunks.values():
            if not waited_for.done():
                waited_for.set_exception(error)
        if not isinstance(error, RemoteStorageError):
            _log.error("a chunk could not be read", exc_info=error)

    def _wait(self, waited_for: Future[Pieces], segment: Segment, index: int) -> Pieces:
        try:
            return waited_for.result(self._settings.get_timeout_ms / 1000)
        except FutureTimeout:
            name = segment.keys.shown(segment.keys.log)
            text = f"{name}: chunk {index} was not loaded within {self._settings.get_timeout_ms} ms"
            raise RemoteStorageError(text) from None

    def _make_room(self, size: int) -> list[Handle]:
        """Evict until `size` more bytes fit beside what is kept and under way."""
        capacity = self._kept.capacity
        weight = None if capacity is None else max(0, capacity - self._loading_bytes - size)
        gone = self._kept.shrink(weight, self._now_ms())
        for key, _ in gone:
            self._note_read(key)
        return [handle for _, handle in gone]

    def _drop(self, key: ChunkKey) -> list[Handle]:
        self._note_read(key)
        return [handle for _, handle in self._kept.remove(key)]

    def _note_read(self, key: ChunkKey) -> None:
        """The chunk does not count as read ahead any more: it was read, failed, or is gone."""
        self._unread_bytes -= self._unread.pop(key, 0)

    def _missing_runs(
        self, segment: Segment, index: int, needed_end: int, goes_on: bool
    ) -> list[tuple[int, int]]:
        chunk_size = segment.index.original_chunk_size
        begin = index * chunk_size
        goes_on = (
            goes_on or index == 0 or self._was_read(segment, index) or self._was_read(segment, index - 1)
        )
        ahead = self.read_ahead_bytes if goes_on else min(self.read_ahead_bytes, RUN_BYTES_MAX)
        end = min(segment.size, max(needed_end, begin + ahead))
        if end <= begin:
            return []
        # Chunks come in order, so one look tells whether there is enough. Waiting until half is used up makes
        # runs longer, but not longer than one GET may be.
        enough = min(end, max(needed_end, begin + ahead // 2, end - RUN_BYTES_MAX + 1))
        if self._is_here(segment, index) and self._is_here(segment, max(index, (enough - 1) // chunk_size)):
            return []
        numbers = range(index, -(-end // chunk_size))
        missing = [number for number in numbers if not self._is_here(segment, number)]
        is_waited_for = bool(missing) and missing[0] == index
        return self._runs(segment, missing, FIRST_RUN_BYTES_MAX if is_waited_for else None)

    def _runs(self, segment: Segment, missing: list[int], first_run_max: int | None) -> list[tuple[int, int]]:
        """Adjacent numbers joined as far as one GET may go."""
        runs: list[tuple[int, int]] = []
        run_max = first_run_max or RUN_BYTES_MAX
        for number in missing:
            fits = (
                runs and runs[-1][1] == number - 1 and self._bytes_of(segment, runs[-1][0], number) <= run_max
            )
            if fits:
                runs[-1] = (runs[-1][0], number)
            else:
                run_max = RUN_BYTES_MAX if runs else run_max
                runs.append((number, number))
        return runs

    def _is_here(self, segment: Segment, number: int) -> bool:
        key = ChunkKey(segment.keys.log, number)
        return key in self._kept or key in self._loading

    def _was_read(self, segment: Segment, number: int) -> bool:
        key = ChunkKey(segment.keys.log, number)
        return key in self._kept and key not in self._unread

    @staticmethod
    def _bytes_of(segment: Segment, first: int, last: int) -> int:
        return segment.index.chunk(last).original_end - segment.index.chunk(first).original_position


def _drop_all(handles: list[Handle]) -> None:
    for handle in handles:
        handle.drop()
