"""One read from one remote segment: index cache, one ranged stream, complete batches with valid checksums.

The bytes of a cache are verified once, see `CachedStream`. If they are damaged, they are removed from the
cache and read once more.

I/O: blocks; called from reader threads. Errors: RemoteStorageError, also DamagedSegment and ShortSegment.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, NamedTuple, Self

from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.ids import Offset
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.ports.cached_streams import CachedStream, CachingStorage
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import DamagedSegment, ReadableStream, RemoteStorageManager
from tidelog.remote.ports.streams import Piece
from tidelog.remote.reading.batch_stream import PIECE_BYTES, BatchStream, ShortSegment
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.storage.segment.offset_index import OffsetIndex

_EMPTY: Final = memoryview(b"")


class SegmentRead(NamedTuple):
    """Complete batches, the offset after them, and the position in the segment where they end."""

    records: memoryview
    next_offset: Offset
    end_position: int


class SegmentReader:
    """Reads batches by offset through the index cache."""

    def __init__(self, storage: RemoteStorageManager, index_cache: RemoteIndexCache) -> None:
        self._source = SegmentSource(storage)
        self._index_cache = index_cache

    def read(
        self, part: SegmentPart, max_bytes: int, at_least_one: bool, position: int | None = None
    ) -> SegmentRead | None:
        """Return the batches of `part` from the first one that reaches its start; None if there is none.

        The result is empty if the first batch is larger than `max_bytes`, or ends after the part. With
        `at_least_one`, the first batch is returned with any size. `position` is that of the first batch if it
        is known; else the index is used.
        """
        try:
            return self._read(part, max_bytes, at_least_one, position)
        except (DamagedSegment, ShortSegment):
            # Only cached bytes or the cached index may be damaged, or the connection was lost: try once more.
            self._index_cache.forget(part.metadata)
            return self._read(part, max_bytes, at_least_one, None)

    def _read(
        self, part: SegmentPart, max_bytes: int, at_least_one: bool, position: int | None
    ) -> SegmentRead | None:
        metadata, offset, end_offset = part
        if position is None:
            with self._index_cache.offset_index(metadata) as index:
                indexed_offset, start, latest = _range_of_batch(index, offset, metadata)
        else:
            # No index has this position, so that its batch may begin at any later offset.
            indexed_offset, start, latest = metadata.end_offset, position, position
        requested_bytes = max(max_bytes, BATCH_OVERHEAD)
        with SegmentBytes(self._source, metadata, start, latest + requested_bytes) as stream:
            batches = BatchStream(metadata, stream, start, indexed_offset, stream.name)
            first = batches.first_reaching(offset, min(latest - start, PIECE_BYTES) + requested_bytes)
            if first is None:
                return None
            if first.last_offset >= end_offset or (first.size_bytes > max_bytes and not at_least_one):
                return SegmentRead(_EMPTY, offset, first.position)
            data = batches.data_from(first.position, max(max_bytes, first.size_bytes))
            if len(data) < first.size_bytes:
                raise ShortSegment(
                    f"{stream.name()} ended at byte {first.position + len(data)}, in the batch of "
                    f"{first.size_bytes} bytes at {first.position}"
                )
            size, next_offset = batches.whole_batches(first, data, max_bytes, end_offset)
            records, end_position = data[:size], first.position + size
            if not stream.are_checked(first.position, end_position):
                batches.check(records, first.position)
                stream.record_checked(first.position, end_position)
            return SegmentRead(records, next_offset, end_position)


class SegmentSource:
    """A storage manager, and its optional interface."""

    __slots__ = ("caching", "storage")

    def __init__(self, storage: RemoteStorageManager) -> None:
        self.storage = storage
        # Checked once: isinstance with a protocol takes as long as reading some batches.
        self.caching = storage if isinstance(storage, CachingStorage) else None


class SegmentBytes:
    """A stream over a segment that requests one range, and more only if that was not enough.

    It is not enough if a batch is larger than the request, or if an index of an older Kafka has the position
    of the first of several batches with the offset of the last.

    It is a context manager that removes the bytes that it has read from the cache if they are damaged.
    """

    def __init__(
        self, source: SegmentSource, metadata: RemoteLogSegmentMetadata, start: int, end: int
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._start = self._position = start
        self._range_end = start
        self._stream: ReadableStream | None = None
        self._cached: CachedStream | None = None
        self._open(end)
        if isinstance(self._stream, CachedStream):
            self._cached = self._stream

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, DamagedSegment) and self._source.caching is not None:
            self._source.caching.discard_cached(self._metadata, self._start, self._position)

    def name(self) -> str:
        """Return the name of the segment in errors: that of its object if it is known."""
        caching = self._source.caching
        return (
            str(self._metadata.remote_log_segment_id)
            if caching is None
            else caching.object_name(self._metadata)
        )

    def are_checked(self, start: int, end: int) -> bool:
        """Return whether the checksums of these bytes were verified by an earlier read."""
        return self._cached is not None and self._cached.are_checked(start, end)

    def record_checked(self, start: int, end: int) -> None:
        """Record that the checksums of these bytes are valid."""
        if self._cached is not None:
            self._cached.record_checked(start, end)

    def read(self, size: int, /) -> Piece:
        """Return at most `size` of the next bytes; empty at the end of the segment or of its object."""
        data = self._read(size)
        if not data and self._position == self._range_end < self._metadata.segment_size_bytes:
            self.close()
            self._open(self._position + max(size, PIECE_BYTES))
            data = self._read(size)
        self._position += len(data)
        return data

    def close(self) -> None:
        """Stop reading."""
        if self._stream is not None:
            self._stream.close()

    def _read(self, size: int) -> Piece:
        assert self._stream is not None and size >= 0, size
        # Streams of cached chunks need no copy.
        return (
            self._stream.read_view(size)
            if isinstance(self._stream, CachedStream)
            else self._stream.read(size)
        )

    def _open(self, end: int) -> None:
        self._range_end = min(end, self._metadata.segment_size_bytes)
        self._stream = self._source.storage.fetch_log_segment(
            self._metadata, self._position, self._range_end - 1
        )


def _range_of_batch(
    index: OffsetIndex, offset: Offset, metadata: RemoteLogSegmentMetadata
) -> tuple[Offset, int, int]:
    """Return the offset in the index and the range of positions at which the batch with `offset` may start.

    A batch starts at the first of the positions.
    """
    indexed_offset, start = index.lookup(offset)
    following = index.first_at_or_after_position(start + 1)
    latest = metadata.segment_size_bytes if following is None else following.position
    return indexed_offset, start, latest
