"""Opening of the index of a remote segment, from the cache's directory or from remote storage.

A fetched index is written to a temporary file and renamed, so that a file with its final name is complete
unless the disk lost data; then it is fetched again. A disk that cannot store the file does not prevent
reading: the index stays in memory for the readers that requested it.

I/O: blocks; called from reader threads.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from tidelog.remote.index_cache.file_names import TEMPORARY_SUFFIX, CachedFile, CachedIndex
from tidelog.remote.index_cache.memory_file import MemoryFile
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import (
    IndexType,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStorageManager,
)
from tidelog.remote.ports.streams import read_all
from tidelog.storage.disk.errors import CorruptIndex, StorageFailure
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex

Index: TypeAlias = OffsetIndex | TimeIndex | TransactionIndex

INDEX_BYTES_MAX: Final = 1 << 30

_log = logging.getLogger(__name__)


class IndexFiles:
    """The directory of the cache and the remote storage behind it, one index at a time."""

    def __init__(self, fs: FileSystem, directory: str, storage: RemoteStorageManager) -> None:
        self._fs = fs
        self.directory = directory
        self._storage = storage

    def present(self) -> dict[CachedFile, int]:
        """Return the files of an earlier run with their sizes, and remove the files of unfinished fetches.

        Errors: OSError if the directory cannot be created.
        """
        self._fs.makedirs(self.directory)
        sizes = {}
        for name in self._fs.listdir(self.directory):
            file = CachedFile.parse(name)
            if file is None:
                self._unlink(f"{self.directory}/{name}")
            else:
                sizes[file] = self._fs.size(f"{self.directory}/{name}")
        return sizes

    def open(self, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> Index:
        """Return the index, from its file if that is valid, else from remote storage.

        Errors: RemoteStorageError, also if the object in remote storage is not such an index.
        """
        path = f"{self.directory}/{file.name}"
        try:
            index = _validated_index(self._fs.open(path, create=False), file, metadata)
        except FileNotFoundError:
            return self._fetch(path, file, metadata)
        except (CorruptIndex, OSError) as damage:
            _log.warning("Cached index %s is damaged; fetching it again: %s", path, damage)
            return self._fetch(path, file, metadata)
        # A crash may leave an empty file, or zeros after the entries.
        is_empty = not index.size_bytes and not _is_empty_in_remote_storage(file, metadata)
        if is_empty or index.size_bytes != index.file.size():
            index.close()
            return self._fetch(path, file, metadata)
        return index

    def remove(self, file: CachedFile) -> None:
        """Unlink the file; a reader that has it open is not affected."""
        self._unlink(f"{self.directory}/{file.name}")

    def _fetch(self, path: str, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> Index:
        data = _fetch_bytes(self._storage, file, metadata)
        try:
            self._write(path, data)
            file_of_index = self._fs.open(path, create=False)
        except (OSError, StorageFailure) as error:
            _log.warning("Cannot write index %s to disk; keeping it in memory: %s", path, error)
            file_of_index = MemoryFile(path, data)
        try:
            return _validated_index(file_of_index, file, metadata)
        except CorruptIndex as damage:
            self._unlink(path)
            raise RemoteStorageError(f"remote storage has a damaged index: {damage}") from damage

    def _write(self, path: str, data: bytes) -> None:
        temporary = path + TEMPORARY_SUFFIX
        file = self._fs.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append(data)
        except BaseException:
            file.close()
            self._unlink(temporary)
            raise
        file.close()
        self._fs.rename(temporary, path)

    def _unlink(self, path: str) -> None:
        try:
            self._fs.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("Cannot remove %s from the index cache: %s", path, error)


def fetch_index(storage: RemoteStorageManager, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> Index:
    """Return the index from remote storage, in memory.

    Errors: RemoteStorageError, also if the object is not such an index.
    """
    memory_file = MemoryFile(file.name, _fetch_bytes(storage, file, metadata))
    try:
        return _validated_index(memory_file, file, metadata)
    except CorruptIndex as damage:
        raise RemoteStorageError(f"remote storage has a damaged index: {damage}") from damage


def _fetch_bytes(
    storage: RemoteStorageManager, file: CachedFile, metadata: RemoteLogSegmentMetadata
) -> bytes:
    if _is_empty_in_remote_storage(file, metadata):
        return b""
    try:
        return read_all(storage.fetch_index(metadata, file.kind.remote_type), INDEX_BYTES_MAX)
    except RemoteResourceNotFound:
        if file.kind is not CachedIndex.TRANSACTION:
            raise
    # A segment without aborted transactions has no transaction index; a deleted segment has no offset index.
    storage.fetch_index(metadata, IndexType.OFFSET).close()
    return b""


def _validated_index(opened: File, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> Index:
    """Return the index in `opened`; close the file if it cannot be an index of the segment."""
    try:
        index = _index_in(opened, file)
        index.sanity_check()
        _require_entries_of(index, metadata)
    except BaseException:
        opened.close()
        raise
    return index


def _is_empty_in_remote_storage(file: CachedFile, metadata: RemoteLogSegmentMetadata) -> bool:
    return file.kind is CachedIndex.TRANSACTION and metadata.is_txn_index_empty


def _index_in(opened: File, file: CachedFile) -> Index:
    match file.kind:
        case CachedIndex.OFFSET:
            return OffsetIndex(opened, file.start_offset, INDEX_BYTES_MAX)
        case CachedIndex.TIME:
            return TimeIndex(opened, file.start_offset, INDEX_BYTES_MAX)
        case CachedIndex.TRANSACTION:
            return TransactionIndex(opened, file.start_offset)


def _require_entries_of(index: Index, metadata: RemoteLogSegmentMetadata) -> None:
    """Raise CorruptIndex if the last entry is not an entry of this segment."""
    last = -1
    if isinstance(index, OffsetIndex):
        last = index.last_offset
        if index.entry_count and index.entry(index.entry_count - 1).position >= metadata.segment_size_bytes:
            raise CorruptIndex(
                index.file.path,
                f"its last position is beyond the segment's {metadata.segment_size_bytes} bytes",
            )
    elif isinstance(index, TimeIndex):
        last = index.last_entry.offset
    elif index.last_offset is not None:
        last = index.last_offset
    if last > metadata.end_offset:
        raise CorruptIndex(
            index.file.path, f"its last offset {last} is above the segment's end offset {metadata.end_offset}"
        )
