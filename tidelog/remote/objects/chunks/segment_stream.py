"""Streams over a range of a segment's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tidelog.remote.objects.chunks.cache import ChunkCache
from tidelog.remote.objects.chunks.segment_chunks import Segment, fetch_chunks
from tidelog.remote.objects.layout.chunk_index import Chunk
from tidelog.remote.objects.layout.pieces import Buffer, Pieces
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.cached_streams import CachedStream
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteStorageError


class _ChunkedStream:
    """A stream of pieces, each within one chunk, that are returned in the requested sizes.

    Invariant: `_position` is the original position of the next byte after `_piece`.
    """

    def __init__(self, segment: Segment, start: int, end: int) -> None:
        self._segment = segment
        self._position = start
        self._end = end
        self._piece: memoryview = memoryview(b"")
        self._is_closed = False

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` of the next bytes, all if `size` is negative; empty at the end."""
        views = list(self.views(size))
        if len(views) == 1:
            whole = views[0].obj
            # A view of a whole bytes object needs no copy.
            return whole if isinstance(whole, bytes) and len(whole) == len(views[0]) else bytes(views[0])
        return b"".join(views)

    def read_view(self, size: int = -1, /) -> Buffer:
        """Return the same bytes as `read`, without a copy if they are in one chunk."""
        views = list(self.views(size))
        return views[0] if len(views) == 1 else b"".join(views)

    def views(self, size: int = -1) -> Iterator[memoryview]:
        """Return the same bytes as `read` without a copy: views of chunks, in order."""
        remaining = len(self._piece) + self._end - self._position
        missing = remaining if size < 0 else min(size, remaining)
        while missing:
            if self._is_closed:
                raise RemoteStorageError("the stream is closed")
            if not self._piece:
                self._piece = memoryview(self._next(self._position + missing))
                self._position += len(self._piece)
            piece, self._piece = self._piece[:missing], self._piece[missing:]
            missing -= len(piece)
            yield piece

    def _next(self, needed_end: int) -> Buffer:
        """Return the bytes from `_position` to the end of its chunk or of the range."""
        raise AssertionError("abstract")

    def _in_chunk(self, chunk: Chunk) -> tuple[int, int]:
        """Return the part of `chunk` in the range from `_position`, as positions in the chunk."""
        return self._position - chunk.original_position, min(
            chunk.original_size, self._end - chunk.original_position
        )

    def close(self) -> None:
        """Stop reading."""
        self._is_closed = True
        self._piece = memoryview(b"")


class CachedSegmentStream(_ChunkedStream, CachedStream):
    """A stream that reads through a cache with read-ahead."""

    def __init__(self, cache: ChunkCache, segment: Segment, start: int, end: int) -> None:
        super().__init__(segment, start, end)
        self._cache = cache
        self._stored_before = cache.stored_chunks

    def _next(self, needed_end: int) -> Buffer:
        chunk = self._segment.index.chunk(self._segment.index.index_at(self._position))
        self._cache.read_ahead(self._segment, chunk.number, needed_end)
        return self._cache.slice(self._segment, chunk.number, *self._in_chunk(chunk))

    def are_checked(self, start: int, end: int) -> bool:
        """Return whether the bytes were cached before the stream was opened, and are checked."""
        return self._cache.are_checked(self._segment, start, end, self._stored_before)

    def record_checked(self, start: int, end: int) -> None:
        """Record that the checksums of the bytes are valid, as far as they came from the cache."""
        self._cache.record_checked(self._segment, start, end, self._stored_before)


class DirectSegmentStream(_ChunkedStream):
    """A stream that reads from the store with one GET, which the first read sends.

    Of transformed segments, whole chunks are fetched.
    """

    def __init__(self, store: ObjectStore, segment: Segment, start: int, end: int) -> None:
        super().__init__(segment, start, end)
        self._store = store
        self._chunks: Iterator[tuple[Chunk, Pieces]] | None = None
        self._plain: ReadableStream | None = None

    def _next(self, needed_end: int) -> Buffer:
        return (
            self._next_plain(needed_end)
            if self._segment.manifest.transform.is_identity
            else self._next_chunk()
        )

    def _next_plain(self, needed_end: int) -> bytes:
        key = self._segment.keys.log
        if self._plain is None:
            self._plain = self._store.get(key, self._position, self._end - 1)
        data = self._plain.read(needed_end - self._position)
        if not data:
            name = self._segment.keys.display_name(key)
            raise RemoteStorageError(f"{name}: {self._end - self._position} bytes are missing at the end")
        return data

    def _next_chunk(self) -> Buffer:
        index = self._segment.index
        if self._chunks is None:
            first, last = index.index_at(self._position), index.index_at(self._end - 1)
            self._chunks = fetch_chunks(self._store, self._segment, first, last)
        next_chunk = next(self._chunks, None)
        if next_chunk is None:
            raise RemoteStorageError(
                f"{self._segment.keys.display_name(self._segment.keys.log)}: the stream has failed already"
            )
        chunk, data = next_chunk
        return data.slice(*self._in_chunk(chunk))

    def close(self) -> None:
        super().close()
        if self._plain is not None:
            self._plain.close()
        # A generator that is closed closes the stream it reads.
        close = getattr(self._chunks, "close", None)
        with suppress(RemoteStorageError):
            if close is not None:
                close()
