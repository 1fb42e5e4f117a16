"""Getting one index of a remote segment: from the cache's directory if it is sound there, else from the tier.

A fetched index is written beside its place and renamed, so that a file that has its name is whole, unless
the disk lost it; then it is fetched again. A disk that takes no file does not keep anybody from reading:
the index stays in memory for those who asked.

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
    """The directory of the cache and the tier behind it, one index at a time."""

    def __init__(self, fs: FileSystem, directory: str, storage: RemoteStorageManager) -> None:
        self._fs = fs
        self.directory = directory
        self._storage = storage

    def present(self) -> dict[CachedFile, int]:
        """The files that an earlier run left, with their sizes; leftovers of unfinished fetches are removed.

        Errors: OSError when there can be no such directory.
        """
        self._fs.makedirs(self.directory)
        found = {}
        for name in self._fs.listdir(self.directory):
            file = CachedFile.parse(name)
            if file is None:
                self._unlink(f"{self.directory}/{name}")
            else:
                found[file] = self._fs.size(f"{self.directory}/{name}")
        return found

    def open(self, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> Index:
        """The index, read from its file if there is a sound one, else fetched.

        Errors: RemoteStorageError, also when what the tier has is no such index.
        """
        path = f"{self.directory}/{file.name}"
        try:
            index = _sound(self._fs.open(path, create=False), file, metadata)
        except FileNotFoundError:
            return self._fetch(path, file, metadata)
        except (CorruptIndex, OSError) as damage:
            _log.warning("The cached index %s is fetched again: %s", path, damage)
            return self._fetch(path, file, metadata)
        # What a crash may leave: a name without bytes, or zeros behind the entries.
        is_empty = not index.size_bytes and not _is_empty_in_the_tier(file, metadata)
        if is_empty or index.size_bytes != index.file.size():
            index.close()
            return self._fetch(path, file, metadata)
        return index

    def remove(self, file: CachedFile) -> None:
        """Remove the file's name; whoever reads from it goes on undisturbed."""
        self._unlink(f"{self.directory}/{file.name}")

    def _fetch(self, path: str, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> Index:
        data = _from_the_tier(self._storage, file, metadata)
        try:
            self._write(path, data)
            opened = self._fs.open(path, create=False)
        except (OSError, StorageFailure) as error:
            _log.warning("The index %s stays in memory: %s", path, error)
            opened = MemoryFile(path, data)
        try:
            return _sound(opened, file, metadata)
        except CorruptIndex as damage:
            self._unlink(path)
            raise RemoteStorageError(f"the tier has a damaged index: {damage}") from damage

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
            _log.warning("%s could not be removed from the index cache: %s", path, error)


def fetched_index(
    storage: RemoteStorageManager, file: CachedFile, metadata: RemoteLogSegmentMetadata
) -> Index:
    """The index as the tier has it, in memory. Errors: RemoteStorageError, also for what is no such index."""
    opened = MemoryFile(file.name, _from_the_tier(storage, file, metadata))
    try:
        return _sound(opened, file, metadata)
    except CorruptIndex as damage:
        raise RemoteStorageError(f"the tier has a damaged index: {damage}") from damage


def _from_the_tier(
    storage: RemoteStorageManager, file: CachedFile, metadata: RemoteLogSegmentMetadata
) -> bytes:
    if _is_empty_in_the_tier(file, metadata):
        return b""
    try:
        return read_all(storage.fetch_index(metadata, file.kind.remote_type), INDEX_BYTES_MAX)
    except RemoteResourceNotFound:
        if file.kind is not CachedIndex.TRANSACTION:
            raise
    # A segment in which nothing was aborted has no transaction index; one that is gone tells nothing.
    storage.fetch_index(metadata, IndexType.OFFSET).close()
    return b""


def _sound(opened: File, file: CachedFile, metadata: RemoteLogSegmentMetadata) -> Index:
    """The index in `opened`, which is closed when that cannot be an index of the segment."""
    try:
        index = _index_in(opened, file)
        index.sanity_check()
        _require_fitting(index, metadata)
    except BaseException:
        opened.close()
        raise
    return index


def _is_empty_in_the_tier(file: CachedFile, metadata: RemoteLogSegmentMetadata) -> bool:
    return file.kind is CachedIndex.TRANSACTION and metadata.is_txn_index_empty


def _index_in(opened: File, file: CachedFile) -> Index:
    match file.kind:
        case CachedIndex.OFFSET:
            return OffsetIndex(opened, file.start_offset, INDEX_BYTES_MAX)
        case CachedIndex.TIME:
            return TimeIndex(opened, file.start_offset, INDEX_BYTES_MAX)
        case CachedIndex.TRANSACTION:
            return TransactionIndex(opened, file.start_offset)


def _require_fitting(index: Index, metadata: RemoteLogSegmentMetadata) -> None:
    """Raise CorruptIndex when the last entry is not one of this segment."""
    last = -1
    if isinstance(index, OffsetIndex):
        last = index.last_offset
        if index.entry_count and index.entry(index.entry_count - 1).position >= metadata.segment_size_bytes:
            raise CorruptIndex(index.file.path, f"it points behind {metadata.segment_size_bytes} bytes")
    elif isinstance(index, TimeIndex):
        last = index.last_entry.offset
    elif index.last_offset is not None:
        last = index.last_offset
    if last > metadata.end_offset:
        raise CorruptIndex(index.file.path, f"its last offset {last} is behind {metadata.end_offset}")
