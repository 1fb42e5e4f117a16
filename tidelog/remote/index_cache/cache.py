"""The index cache: which indexes are on disk, which are open, and which are being opened.

    request -> open: returned
            -> on disk, or in remote storage only: one thread opens or fetches it, the others wait for it
    too many bytes -> the least recently used file is unlinked; a reader that has it open can still read it

Invariant: `_sizes` contains the files of the directory, least recently used first. `_open` contains those of
them that are open, and indexes in memory that could not be written to disk while they are in use.
Bounds: bytes on disk by `remote.log.index.file.cache.total.size.bytes`, files by FILES_MAX, open files by
OPEN_FILES_MAX, each plus what is in use. An index that is larger than the limit is fetched, used and dropped.
I/O: blocks; any thread may call. Errors: RemoteStorageError; errors of the disk are handled, see
`index_files`.
Source: RemoteIndexCache of Apache Kafka 4.3, which keeps the indexes of a segment together and fetches all of
them at once; here each index is fetched when it is needed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

from tidelog.base.single_flight import SingleFlight
from tidelog.remote.index_cache.file_names import CACHE_DIRECTORY, CachedFile, CachedIndex
from tidelog.remote.index_cache.index_files import Index, IndexFiles
from tidelog.remote.index_cache.memory_file import MemoryFile
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteStorageError, RemoteStorageManager
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex

FILES_MAX: Final = 200_000
OPEN_FILES_MAX: Final = 512


class _OpenIndex:
    """An open index that readers share; closed when it has no reader and is no longer cached."""

    __slots__ = ("in_memory_only", "index", "is_cached", "readers")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.in_memory_only = isinstance(index.file, MemoryFile)
        self.readers = 0
        self.is_cached = True


class RemoteIndexCache:
    """Provides the indexes of remote segments, each for the duration of a `with` block."""

    def __init__(
        self, fs: FileSystem, log_directory: str, storage: RemoteStorageManager, size_bytes_max: int
    ) -> None:
        self._files = IndexFiles(fs, f"{log_directory}/{CACHE_DIRECTORY}", storage)
        self._size_bytes_max = size_bytes_max
        self._lock = threading.Lock()
        self._sizes: OrderedDict[CachedFile, int] = OrderedDict()
        self._open: OrderedDict[CachedFile, _OpenIndex] = OrderedDict()
        self._opening: SingleFlight[CachedFile, None] = SingleFlight()
        self._partitions: dict[CachedFile, TopicIdPartition] = {}
        self._total_bytes = 0
        self._is_closed = False

    @property
    def directory(self) -> str:
        """The directory of the files."""
        return self._files.directory

    @property
    def size_bytes(self) -> int:
        """The size of all files in bytes."""
        return self._total_bytes

    def __len__(self) -> int:
        return len(self._sizes)

    def load(self) -> None:
        """Add the files that an earlier run left; called once, before any other method.

        Errors: OSError if the directory cannot be created or listed.
        """
        present = self._files.present()
        with self._lock:
            for file, size_bytes in present.items():
                self._add_file(file, size_bytes)
            self._trim()

    # -- reading

    @contextmanager
    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[OffsetIndex]:
        """Provide the segment's offset index."""
        with self._index(metadata, CachedIndex.OFFSET) as index:
            assert isinstance(index, OffsetIndex), index
            yield index

    @contextmanager
    def time_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TimeIndex]:
        """Provide the segment's time index."""
        with self._index(metadata, CachedIndex.TIME) as index:
            assert isinstance(index, TimeIndex), index
            yield index

    @contextmanager
    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TransactionIndex]:
        """Provide the segment's transaction index; it is empty if no transaction was aborted."""
        with self._index(metadata, CachedIndex.TRANSACTION) as index:
            assert isinstance(index, TransactionIndex), index
            yield index

    def holds_transaction_index(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Return whether the segment's transaction index is on disk, so that it need not be fetched."""
        # No lock: it may be held while files are removed, and the event loop must not wait for it.
        return CachedFile.of(metadata, CachedIndex.TRANSACTION) in self._sizes

    @contextmanager
    def _index(self, metadata: RemoteLogSegmentMetadata, kind: CachedIndex) -> Iterator[Index]:
        file = CachedFile.of(metadata, kind)
        entry = self._acquire(file, metadata)
        try:
            yield entry.index
        finally:
            with self._lock:
                entry.readers -= 1
                if entry.in_memory_only and not entry.readers and self._open.get(file) is entry:
                    del self._open[file]
                self._trim()
                self._close_if_unused(entry)

    def _acquire(self, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> _OpenIndex:
        while True:
            with self._lock:
                self._require_open()
                entry = self._open.get(file)
                if entry is not None:
                    self._open.move_to_end(file)
                    if file in self._sizes:
                        self._sizes.move_to_end(file)
                    entry.readers += 1
                    return entry
                opening, is_first = self._opening.join(file)
            if is_first:
                return self._open_for_all(file, metadata, opening)
            opening.result()

    def _open_for_all(
        self, file: CachedFile, metadata: RemoteLogSegmentMetadata, opening: Future[None]
    ) -> _OpenIndex:
        try:
            index = self._files.open(file, metadata)
            with self._lock:
                self._opening.end(file, opening)
                entry = self._add(file, metadata, index)
                self._trim()
        except BaseException as error:
            with self._lock:
                self._opening.end(file, opening)
            # The waiting readers get another error object: one object must not be raised in many threads.
            opening.set_exception(RemoteStorageError(f"cannot read index {file.name}: {error}"))
            raise
        opening.set_result(None)
        return entry

    def _add(self, file: CachedFile, metadata: RemoteLogSegmentMetadata, index: Index) -> _OpenIndex:
        entry = _OpenIndex(index)
        entry.readers = 1
        if self._is_closed:
            entry.is_cached = False
            return entry
        self._open[file] = entry
        if not entry.in_memory_only:
            self._add_file(file, index.size_bytes)
            self._partitions[file] = metadata.topic_id_partition
        return entry

    # -- removing

    def resize(self, size_bytes_max: int) -> None:
        """Apply a changed `remote.log.index.file.cache.total.size.bytes`."""
        with self._lock:
            self._size_bytes_max = size_bytes_max
            self._trim()

    def forget(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove the indexes of a segment that was deleted, or whose indexes are damaged."""
        with self._lock:
            for kind in CachedIndex:
                self._drop(CachedFile.of(metadata, kind))

    def remove_partition(self, partition: TopicIdPartition) -> None:
        """Remove the indexes of a partition that left this node, if they were used in this run."""
        with self._lock:
            for file in [file for file, owner in self._partitions.items() if owner == partition]:
                self._drop(file)

    def close(self) -> None:
        """Close indexes without readers now, and the others after their last reader; keep the files."""
        with self._lock:
            self._is_closed = True
            while self._open:
                _, entry = self._open.popitem()
                entry.is_cached = False
                self._close_if_unused(entry)

    def _add_file(self, file: CachedFile, size_bytes: int) -> None:
        self._total_bytes += size_bytes - self._sizes.get(file, 0)
        self._sizes[file] = size_bytes
        self._sizes.move_to_end(file)

    def _drop(self, file: CachedFile) -> None:
        # Under the lock, so that no other thread fetches the file again before it is unlinked.
        self._total_bytes -= self._sizes.pop(file, 0)
        self._partitions.pop(file, None)
        self._files.remove(file)
        entry = self._open.pop(file, None)
        if entry is not None:
            entry.is_cached = False
            self._close_if_unused(entry)

    def _trim(self) -> None:
        while self._sizes and (self._total_bytes > self._size_bytes_max or len(self._sizes) > FILES_MAX):
            file = next((file for file in self._sizes if not self._has_readers(file)), None)
            if file is None:
                return
            self._drop(file)
        while len(self._open) > OPEN_FILES_MAX:
            file = next((file for file, entry in self._open.items() if not entry.readers), None)
            if file is None:
                return
            self._open.pop(file).index.close()

    def _has_readers(self, file: CachedFile) -> bool:
        entry = self._open.get(file)
        return entry is not None and entry.readers > 0

    def _close_if_unused(self, entry: _OpenIndex) -> None:
        if not entry.is_cached and not entry.readers:
            entry.index.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise RemoteStorageError("the index cache is closed")
