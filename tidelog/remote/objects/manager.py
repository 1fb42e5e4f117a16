"""A RemoteStorageManager over an object store, in the layout of Aiven's plugin.

    copy     log, indexes, manifest: one put each, in this order. The manifest is the commit: without it
             nothing of the segment can be read. Then the objects are verified (`copy.verification`). If that
             or a put fails, the objects are deleted as far as possible; delete_log_segment_data deletes
             the others.
    read     manifest (cached) -> chunks (cached, read ahead) -> stream
    delete   manifest, indexes, log, by key: no listing and no read is needed

Every object is addressed by the segment's metadata. A prefix or path in the custom metadata has precedence
over the configured prefix, for all three objects. The layout is in tidelog/remote/objects/layout.
"""

from __future__ import annotations

import io
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.chunks.cache import ChunkCache
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.objects.chunks.loading_cache import LoadingCache
from tidelog.remote.objects.chunks.segment_chunks import Segment
from tidelog.remote.objects.chunks.segment_stream import CachedSegmentStream, DirectSegmentStream
from tidelog.remote.objects.layout.chunk_index import ChunkIndex
from tidelog.remote.objects.layout.custom_metadata import CustomField, CustomMetadata, encode_custom_metadata
from tidelog.remote.objects.layout.encryption import OVERHEAD_BYTES, DataKeys, KeyRing
from tidelog.remote.objects.layout.manifest import (
    INDEX_ORDER,
    MANIFEST_BYTES_MAX,
    IndexPlace,
    SegmentManifest,
    decode_manifest,
    encode_manifest,
    place_indexes,
)
from tidelog.remote.objects.layout.object_keys import ObjectKeys, SegmentKeys, is_reference
from tidelog.remote.objects.layout.transform import DamagedChunk, Transform
from tidelog.remote.objects.stores.activity import StoreActivity
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.objects.upload import (
    TransformedLog,
    is_compressed,
    join_indexes,
    plain_chunk_index,
    read_head,
)
from tidelog.remote.objects.verification import Verification, verify_contents, verify_manifest, verify_sizes
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import (
    DamagedSegment,
    IndexType,
    LogSegmentData,
    ReadableStream,
    RemoteResourceNotFound,
    RemoteStorageError,
    StoreUnavailable,
)
from tidelog.remote.ports.streams import ShortRead, read_exactly

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_INDEXES_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""Indexes that are together not longer than this are fetched by one GET."""
_PROBE: Final = "tidelog-probe"
_HINT_THREADS: Final = 4
"""Each thread fetches the manifest and the indexes of one segment, one request after the other."""
_HINTS_MAX: Final = 64
"""The maximum number of pending hints about segments that will be read; further hints are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The settings of writes and reads of segments."""

    keys: ObjectKeys
    chunk_size: int
    compression: bool
    compression_heuristic: bool
    key_ring: KeyRing | None
    """Segments are encrypted if there is a key ring; encrypted segments cannot be read without it."""
    custom_fields: tuple[CustomField, ...]
    manifest_cache: CacheSettings
    index_cache: CacheSettings
    verification: Verification


class ObjectStorageManager:
    """Segments as objects of `store`; without `chunk_cache`, every range is read from the store.

    I/O: blocks; from any thread. Bounds: a copy holds one chunk of the log and its indexes in memory.
    Errors: RemoteStorageError, one line that names the object; RemoteResourceNotFound.
    """

    def __init__(
        self,
        store: ObjectStore,
        settings: ManagerSettings,
        chunk_cache: ChunkCache | None = None,
        activity: StoreActivity | None = None,
    ) -> None:
        self.settings = settings
        self._store = store
        self.activity = activity
        self._chunks = chunk_cache
        self._manifests: LoadingCache[str, SegmentManifest] = LoadingCache(
            settings.manifest_cache, lambda _: 1
        )
        self._indexes: LoadingCache[tuple[str, IndexType], bytes] = LoadingCache(settings.index_cache, len)
        self._data_keys = DataKeys() if settings.key_ring is None else settings.key_ring.data_keys()
        self._hints = ThreadPoolExecutor(_HINT_THREADS, thread_name_prefix="tier-hints")
        self._hinted: set[str] = set()
        self._hints_lock = threading.Lock()

    @property
    def store(self) -> ObjectStore:
        """The object store, for tools that inspect it directly."""
        return self._store

    @property
    def chunk_cache(self) -> ChunkCache | None:
        """The cache of chunks; None if every range is read from the store."""
        return self._chunks

    @property
    def read_ahead_bytes(self) -> int:
        """The number of bytes that reads fetch ahead; 0 if they do not read ahead."""
        return 0 if self._chunks is None else self._chunks.read_ahead_bytes

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> bytes | None:
        """Copy a segment, as specified by RemoteStorageManager."""
        keys = self.settings.keys.new(metadata)
        try:
            sizes = self._put_objects(keys, metadata, segment)
        except StoreUnavailable:
            raise  # the next attempt has the same keys
        except Exception as error:
            self._delete_objects(keys)
            if isinstance(error, RemoteStorageError):
                raise
            name = keys.display_name(keys.log)
            raise RemoteStorageError(f"cannot copy {name}: {type(error).__name__}: {error}") from error
        return self._custom_metadata(keys, sum(sizes))

    def replace_log_segment_data(self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData) -> None:
        """Write the objects of a finished segment again, because they are damaged.

        A failed attempt leaves them damaged; nothing is deleted. Meanwhile, readers may get errors.
        """
        keys = self._keys(metadata)
        self._put_objects(keys, metadata, segment)
        self._forget(keys)

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> ReadableStream:
        """Return a stream of a range, as specified by RemoteStorageManager; its first read sends a GET."""
        if start_position < 0 or (end_position is not None and end_position < start_position):
            raise ValueError(f"{start_position} to {end_position} is not a range of bytes")
        segment = self._segment(metadata)
        if start_position >= segment.size:
            raise ValueError(
                f"position {start_position} is beyond the end of the segment, which has {segment.size} bytes"
            )
        end = segment.size if end_position is None else min(segment.size, end_position + 1)
        if self._chunks is None:
            return DirectSegmentStream(self._store, segment, start_position, end)
        return CachedSegmentStream(self._chunks, segment, start_position, end)

    def prefetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, position: int = 0, *, with_transactions: bool = False
    ) -> None:
        """Fetch the bytes from `position` in the background, as far as reads fetch ahead.

        With `with_transactions`, fetch the transaction index too. This is a hint for readers that know the
        next segments: it never blocks, never fails, and may be dropped.
        """
        if self._chunks is None or self._chunks.read_ahead_bytes == 0:
            return
        chunks, name = self._chunks, metadata.remote_log_segment_id
        self._hint(
            f"{name}@{position}", lambda: self._prefetch(chunks, metadata, position, with_transactions)
        )

    def prefetch_manifest(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Fetch the manifest in the background; a hint like `prefetch_log_segment`."""
        self._hint(str(metadata.remote_log_segment_id), lambda: self._segment(metadata))

    def _hint(self, key: str, action: Callable[[], object]) -> None:
        """Run `action` in the background unless one with the same `key` is pending."""
        with self._hints_lock:
            if key in self._hinted or len(self._hinted) >= _HINTS_MAX:
                return
            self._hinted.add(key)
        try:
            self._hints.submit(self._run_hint, key, action)
        except RuntimeError:  # closed
            self._hinted.discard(key)

    def _run_hint(self, key: str, action: Callable[[], object]) -> None:
        try:
            action()
        except RemoteStorageError as error:
            _log.debug("Cannot read ahead in %s: %s", key, error)
        finally:
            with self._hints_lock:
                self._hinted.discard(key)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        """Return one index, as specified by RemoteStorageManager."""
        segment = self._segment(metadata)
        place = segment.manifest.indexes.get(index_type)
        if place is None:
            name = segment.keys.display_name(segment.keys.indexes)
            raise RemoteResourceNotFound(f"{name}: the segment has no {index_type.value} index")
        if place.size == 0:
            return io.BytesIO()
        key = segment.keys.indexes
        return io.BytesIO(self._indexes.get((key, index_type), lambda: self._load_index(segment, index_type)))

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Delete a segment, as specified by RemoteStorageManager; objects of another topic are kept."""
        keys = self._keys(metadata)
        if is_reference(metadata):
            return
        self._forget(keys)
        self._store.delete(keys.all)

    def probe(self) -> None:
        """Read an object that does not exist, to find wrong settings early.

        Errors: RemoteStorageError, also if the credentials have no right to list the bucket: S3 then does
        not report that the object is missing.
        """
        with suppress(RemoteResourceNotFound):
            self._store.get(f"{self.settings.keys.prefix}{_PROBE}").close()

    def object_name(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return the name of the object with the segment's log, as logs may show it."""
        keys = self._keys(metadata)
        return keys.display_name(keys.log)

    def discard_cached(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        """Remove the cached bytes that overlap the range, and the cached manifest and indexes."""
        keys = self._keys(metadata)
        manifest = self._manifests.peek(keys.manifest)
        self._forget_small_files(keys)
        if self._chunks is None or manifest is None:
            return
        segment = Segment(keys, manifest)
        end = min(end, segment.size)
        if start < end:
            self._chunks.discard(segment, start, end)

    def _forget(self, keys: SegmentKeys) -> None:
        self._forget_small_files(keys)
        if self._chunks is not None:
            self._chunks.forget(keys.log)

    def _forget_small_files(self, keys: SegmentKeys) -> None:
        self._manifests.forget(keys.manifest)
        for index_type in IndexType:
            self._indexes.forget((keys.indexes, index_type))

    def close(self) -> None:
        """Release the threads, the chunk cache and the store."""
        self._hints.shutdown(wait=True, cancel_futures=True)
        if self._chunks is not None:
            self._chunks.close()
        self._store.close()

    def _put_objects(
        self, keys: SegmentKeys, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> tuple[int, int, int]:
        """Put the three objects and return their sizes."""
        data_key = None
        if self.settings.key_ring is not None:
            # A put of an earlier attempt may be executed late: all attempts must have the same key.
            data_key = self._data_keys.key_of(keys.log)
        with open(segment.log, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != metadata.segment_size_bytes:
                recorded_bytes = metadata.segment_size_bytes
                raise RemoteStorageError(
                    f"{segment.log} has {size} bytes, but {recorded_bytes} bytes in its metadata"
                )
            transform = Transform(self._should_compress(file, segment.log), data_key)
            chunk_index, log_bytes, log_is_confirmed = self._put_log(keys, file, size, transform)
        small_files = _read_indexes(segment)
        indexes, index_sizes = join_indexes(small_files, INDEX_ORDER, Transform(data_key=data_key))
        indexes_are_confirmed = self._store.put(keys.indexes, indexes, len(indexes))
        manifest = SegmentManifest(chunk_index, place_indexes(index_sizes), transform)
        encoded = encode_manifest(manifest, metadata, self.settings.key_ring)
        manifest_is_confirmed = self._store.put(keys.manifest, encoded, len(encoded))
        if log_is_confirmed and indexes_are_confirmed and manifest_is_confirmed:
            if self.settings.verification is not Verification.NONE:
                verify_sizes(self._store, keys, {keys.log: log_bytes})
        elif self.settings.verification is not Verification.NONE:
            verify_sizes(self._store, keys, {keys.log: log_bytes, keys.indexes: len(indexes)})
            verify_manifest(self._store, keys, encoded)
        if self.settings.verification is Verification.CONTENTS:
            verify_contents(self._store, keys, manifest, segment, small_files)
        return log_bytes, len(indexes), len(encoded)

    def _put_log(
        self, keys: SegmentKeys, file: io.BufferedReader, size: int, transform: Transform
    ) -> tuple[ChunkIndex, int, bool]:
        """Put the log; return its chunks, its stored size, and whether the store has confirmed its bytes."""
        chunk_size = self.settings.chunk_size
        if transform.is_identity:
            is_confirmed = self._store.put(keys.log, file, size)
            return plain_chunk_index(size, chunk_size), size, bool(is_confirmed)
        source = TransformedLog(file, size, chunk_size, transform)
        is_confirmed = self._store.put(keys.log, source, source.size)
        return source.chunk_index(), source.stored_bytes, bool(is_confirmed)

    def _should_compress(self, file: io.BufferedReader, name: str) -> bool:
        """Return whether the log is compressed.

        With the heuristic, a log whose first batch is compressed, or cannot be read, is stored without
        compression.
        """
        if not (self.settings.compression and self.settings.compression_heuristic):
            return self.settings.compression
        try:
            return not is_compressed(read_head(file))
        except DecodeError as error:
            _log.warning(
                "Copying %s without compression because its first batch cannot be read: %s", name, error
            )
            return False

    def _delete_objects(self, keys: SegmentKeys) -> None:
        try:
            self._store.delete(keys.all)
        except Exception as error:
            _log.warning(
                "Cannot delete the objects of the failed copy %s: %s", keys.display_name(keys.log), error
            )

    def _custom_metadata(self, keys: SegmentKeys, remote_size: int) -> bytes | None:
        requested = self.settings.custom_fields
        fields = CustomMetadata(
            remote_size if CustomField.REMOTE_SIZE in requested else None,
            keys.prefix if CustomField.OBJECT_PREFIX in requested else None,
            keys.path if CustomField.OBJECT_KEY in requested else None,
        )
        return encode_custom_metadata(fields) or None

    def _keys(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        try:
            return self.settings.keys.of(metadata)
        except DecodeError as error:
            raise RemoteStorageError(f"{metadata.remote_log_segment_id}: {error}") from error

    def _segment(self, metadata: RemoteLogSegmentMetadata) -> Segment:
        keys = self._keys(metadata)
        manifest = self._manifests.get(keys.manifest, lambda: self._load_manifest(keys))
        return Segment(keys, manifest)

    def _load_manifest(self, keys: SegmentKeys) -> SegmentManifest:
        with closing(self._store.get(keys.manifest)) as stream:
            data = stream.read(MANIFEST_BYTES_MAX + 1)
        if len(data) > MANIFEST_BYTES_MAX:
            raise RemoteStorageError(
                f"{keys.display_name(keys.manifest)}: the manifest is longer than {MANIFEST_BYTES_MAX} bytes"
            )
        return self._with_object_name(
            keys, keys.manifest, lambda: decode_manifest(data, self.settings.key_ring)
        )

    def _load_index(self, segment: Segment, requested: IndexType) -> bytes:
        """Return the `requested` index; if one GET fetches all indexes, cache the others."""
        places = segment.manifest.indexes
        total = max(place.position + place.size for place in places.values())
        own_place = places[requested]
        span = IndexPlace(0, total) if total <= _INDEXES_AT_ONCE_BYTES else own_place
        key = segment.keys.indexes
        with closing(self._store.get(key, span.position, span.position + span.size - 1)) as stream:
            data = memoryview(
                self._with_object_name(segment.keys, key, lambda: read_exactly(stream, span.size))
            )

        def small_file(place: IndexPlace) -> bytes:
            begin = place.position - span.position
            stored = data[begin : begin + place.size]
            transform = segment.manifest.index_transform
            size = place.size if transform.is_identity else place.size - OVERHEAD_BYTES
            return self._with_object_name(segment.keys, key, lambda: bytes(transform.undo(stored, size)))

        if span is not own_place:
            for index_type, place in places.items():
                if place.size and index_type is not requested:
                    self._indexes.put((key, index_type), small_file(place))
        return small_file(own_place)

    @staticmethod
    def _with_object_name(keys: SegmentKeys, key: str, action: Callable[[], _T]) -> _T:
        """Return the result of `action`; convert errors of damaged data to errors of the object `key`."""
        try:
            return action()
        except (DecodeError, DamagedChunk) as error:
            raise DamagedSegment(f"{keys.display_name(key)}: {error}") from error
        except ShortRead as error:
            raise RemoteStorageError(f"{keys.display_name(key)}: {error}") from error

    def _prefetch(
        self, chunks: ChunkCache, metadata: RemoteLogSegmentMetadata, position: int, with_transactions: bool
    ) -> None:
        segment = self._segment(metadata)
        if 0 <= position < segment.size:
            chunks.read_ahead(segment, segment.index.index_at(position), is_sequential=True)
        if with_transactions:
            self.fetch_index(metadata, IndexType.TRANSACTION).close()


def _read_indexes(segment: LogSegmentData) -> dict[IndexType, bytes]:
    files = {
        IndexType.OFFSET: segment.offset_index,
        IndexType.TIMESTAMP: segment.time_index,
        IndexType.PRODUCER_SNAPSHOT: segment.producer_snapshot,
    }
    if segment.transaction_index is not None:
        files[IndexType.TRANSACTION] = segment.transaction_index
    indexes = {IndexType.LEADER_EPOCH: segment.leader_epochs}
    for index_type, path in files.items():
        with open(path, "rb") as file:
            indexes[index_type] = file.read()
    return indexes
