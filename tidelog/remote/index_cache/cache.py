"""The index cache: what is on the disk, what is open, and who fetches what is neither.

    asked for -> open: handed out
              -> on the disk, or in the tier only: one thread opens or fetches it, the others wait for it
    too many bytes -> the least recently used file loses its name; who reads from it still can

Invariant: `_sizes` holds the files of the directory, least recently used first; `_open` those of them that
are open, and indexes that found no room on the disk while somebody reads them.
Bounds: bytes on the disk by `remote.log.index.file.cache.total.size.bytes`, files by FILES_MAX, open files
by OPEN_FILES_MAX, each plus what is in use. A larger index than all that is fetched, used and dropped.
I/O: blocks; any thread may call. Errors: RemoteStorageError; those of the disk are none, see `index_files`.
Source: RemoteIndexCache of Apache Kafka 4.3, which keeps the indexes of a segment together and fetches all
of them at once; here each comes when it is needed.
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
    """An index that readers share; closed when nobody reads it and it is no longer kept."""

    __slots__ = ("in_memory_only", "index", "is_kept", "readers")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.in_memory_only = isinstance(index.file, MemoryFile)
        self.readers = 0
        self.is_kept = True


class RemoteIndexCache:
    """Hands out the indexes of remote segments for as long as a `with` block lasts."""

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
        self.openings = 0
        """How many times an index was opened, from its file or from the tier."""

    @property
    def directory(self) -> str:
        """Where the files are."""
        return self._files.directory

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return self._total_bytes

    def __len__(self) -> int:
        return len(self._sizes)

    def load(self) -> None:
        """Take over what an earlier run left; to be called once, before anything else.

        Errors: OSError when the directory cannot be made or listed.
        """
        present = self._files.present()
        with self._lock:
            for file, size_bytes in present.items():
                self._note(file, size_bytes)
            self._trim()

    # -- reading

    @contextmanager
    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[OffsetIndex]:
        """The segment's offset index."""
        with self._index(metadata, CachedIndex.OFFSET) as index:
            assert isinstance(index, OffsetIndex), index
            yield index

    @contextmanager
    def time_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TimeIndex]:
        """The segment's time index."""
        with self._index(metadata, CachedIndex.TIME) as index:
            assert isinstance(index, TimeIndex), index
            yield index

    @contextmanager
    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TransactionIndex]:
        """The segment's transaction index, an empty one when nothing was aborted."""
        with self._index(metadata, CachedIndex.TRANSACTION) as index:
            assert isinstance(index, TransactionIndex), index
            yield index

    def holds_offset_index(self, metadata: RemoteLogSegmentMetadata) -> bool:
        """Whether the segment's offset index is on the disk, so that nobody needs to fetch it."""
        # One look at a dict: the lock may be held while files are removed, and the event loop asks.
        return CachedFile.of(metadata, CachedIndex.OFFSET) in self._sizes

    @contextmanager
    def _index(self, metadata: RemoteLogSegmentMetadata, kind: CachedIndex) -> Iterator[Index]:
        file = CachedFile.of(metadata, kind)
        opened = self._acquire(file, metadata)
        try:
            yield opened.index
        finally:
            with self._lock:
                opened.readers -= 1
                if opened.in_memory_only and not opened.readers and self._open.get(file) is opened:
                    del self._open[file]
                self._trim()
                self._close_unless_wanted(opened)

    def _acquire(self, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> _OpenIndex:
        while True:
            with self._lock:
                self._refuse_when_closed()
                opened = self._open.get(file)
                if opened is not None:
                    self._open.move_to_end(file)
                    if file in self._sizes:
                        self._sizes.move_to_end(file)
                    opened.readers += 1
                    return opened
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
                opened = self._add(file, metadata, index)
                self._trim()
        except BaseException as error:
            with self._lock:
                self._opening.end(file, opening)
            # The waiting readers get another error object: one object must not be raised in many threads.
            opening.set_exception(RemoteStorageError(f"the index {file.name} could not be read: {error}"))
            raise
        opening.set_result(None)
        return opened

    def _add(self, file: CachedFile, metadata: RemoteLogSegmentMetadata, index: Index) -> _OpenIndex:
        self.openings += 1
        opened = _OpenIndex(index)
        opened.readers = 1
        if self._is_closed:
            opened.is_kept = False
            return opened
        self._open[file] = opened
        if not opened.in_memory_only:
            self._note(file, index.size_bytes)
            self._partitions[file] = metadata.topic_id_partition
        return opened

    # -- letting go

    def resize(self, size_bytes_max: int) -> None:
        """Follow a changed `remote.log.index.file.cache.total.size.bytes`."""
        with self._lock:
            self._size_bytes_max = size_bytes_max
            self._trim()

    def forget(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove the indexes of a segment, because it is gone or because they proved to be wrong."""
        with self._lock:
            for kind in CachedIndex:
                self._drop(CachedFile.of(metadata, kind))

    def remove_partition(self, partition: TopicIdPartition) -> None:
        """Remove the indexes of a partition that is here no more, as far as this run asked for them."""
        with self._lock:
            for file in [file for file, owner in self._partitions.items() if owner == partition]:
                self._drop(file)

    def close(self) -> None:
        """Close what nobody reads, and the rest when it has been read; the files stay for the next run."""
        with self._lock:
            self._is_closed = True
            while self._open:
                _, opened = self._open.popitem()
                opened.is_kept = False
                self._close_unless_wanted(opened)

    def _note(self, file: CachedFile, size_bytes: int) -> None:
        self._total_bytes += size_bytes - self._sizes.get(file, 0)
        self._sizes[file] = size_bytes
        self._sizes.move_to_end(file)

    def _drop(self, file: CachedFile) -> None:
        # The name goes while nobody else can fetch the file anew.
        self._total_bytes -= self._sizes.pop(file, 0)
        self._partitions.pop(file, None)
        self._files.remove(file)
        opened = self._open.pop(file, None)
        if opened is not None:
            opened.is_kept = False
            self._close_unless_wanted(opened)

    def _trim(self) -> None:
        while self._sizes and (self._total_bytes > self._size_bytes_max or len(self._sizes) > FILES_MAX):
            file = next((file for file in self._sizes if not self._is_read(file)), None)
            if file is None:
                return
            self._drop(file)
        while len(self._open) > OPEN_FILES_MAX:
            file = next((file for file, opened in self._open.items() if not opened.readers), None)
            if file is None:
                return
            self._open.pop(file).index.close()

    def _is_read(self, file: CachedFile) -> bool:
        opened = self._open.get(file)
        return opened is not None and opened.readers > 0

    def _close_unless_wanted(self, opened: _OpenIndex) -> None:
        if not opened.is_kept and not opened.readers:
            opened.index.close()

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise RemoteStorageError("the index cache is closed")
