"""A RemoteStorageManager over an object store, in the layout of Aiven's plugin.

    copy     log, indexes, manifest: one put each, in this order; see `SegmentWriter`. If a put or the
             verification fails, the objects are deleted as far as possible; delete_log_segment_data deletes
             the others.
    read     manifest (cached, see `SegmentFiles`) -> chunks (cached, read ahead) -> stream
    delete   manifest, indexes, log, by key: no listing and no read is needed

Every object is addressed by the segment's metadata. A prefix or path in the custom metadata has precedence
over the configured prefix, for all three objects. The layout is in tidelog/remote/objects/layout.
"""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Final

from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.background_hints import BackgroundHints
from tidelog.remote.objects.chunks.cache import ChunkCache
from tidelog.remote.objects.chunks.segment_chunks import Segment
from tidelog.remote.objects.chunks.segment_stream import CachedSegmentStream, DirectSegmentStream
from tidelog.remote.objects.layout.object_keys import SegmentKeys, is_reference
from tidelog.remote.objects.manager_settings import ManagerSettings
from tidelog.remote.objects.segment_files import SegmentFiles
from tidelog.remote.objects.segment_writer import SegmentWriter
from tidelog.remote.objects.stores.activity import StoreActivity
from tidelog.remote.objects.stores.port import SYSTEM_PORTS, ObjectStore, StorePorts
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import (
    IndexType,
    LogSegmentData,
    ReadableStream,
    RemoteResourceNotFound,
    RemoteStorageError,
)

_PROBE: Final = "tidelog-probe"


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
        ports: StorePorts = SYSTEM_PORTS,
    ) -> None:
        self.settings = settings
        self._store = store
        self.activity = activity
        self._chunks = chunk_cache
        self._writer = SegmentWriter(store, settings, ports.open_file)
        self._files = SegmentFiles(store, settings, ports.clock)
        self._hints = BackgroundHints(ports.threads)

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
        return self._writer.create(self.settings.keys.new(metadata), metadata, segment)

    def replace_log_segment_data(self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData) -> None:
        """Write the objects of a finished segment again, because they are damaged.

        A failed attempt leaves them damaged; nothing is deleted. Meanwhile, readers may get errors.
        """
        keys = self._keys(metadata)
        self._writer.replace(keys, metadata, segment)
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
        self._hints.submit(
            f"{name}@{position}", lambda: self._prefetch(chunks, metadata, position, with_transactions)
        )

    def prefetch_manifest(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Fetch the manifest in the background; a hint like `prefetch_log_segment`."""
        self._hints.submit(str(metadata.remote_log_segment_id), lambda: self._segment(metadata))

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        """Return one index, as specified by RemoteStorageManager."""
        return io.BytesIO(self._files.index(self._segment(metadata), index_type))

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
        segment = self._files.cached_segment(keys)
        self._files.forget(keys)
        if self._chunks is None or segment is None:
            return
        end = min(end, segment.size)
        if start < end:
            self._chunks.discard(segment, start, end)

    def _forget(self, keys: SegmentKeys) -> None:
        self._files.forget(keys)
        if self._chunks is not None:
            self._chunks.forget(keys.log)

    def close(self) -> None:
        """Release the threads, the chunk cache and the store."""
        self._hints.close()
        if self._chunks is not None:
            self._chunks.close()
        self._store.close()

    def _keys(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        try:
            return self.settings.keys.of(metadata)
        except DecodeError as error:
            raise RemoteStorageError(f"{metadata.remote_log_segment_id}: {error}") from error

    def _segment(self, metadata: RemoteLogSegmentMetadata) -> Segment:
        return self._files.segment(self._keys(metadata))

    def _prefetch(
        self, chunks: ChunkCache, metadata: RemoteLogSegmentMetadata, position: int, with_transactions: bool
    ) -> None:
        segment = self._segment(metadata)
        if 0 <= position < segment.size:
            chunks.read_ahead(segment, segment.index.index_at(position), is_sequential=True)
        if with_transactions:
            self.fetch_index(metadata, IndexType.TRANSACTION).close()
