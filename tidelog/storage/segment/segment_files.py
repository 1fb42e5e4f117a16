"""The files of one segment: its log and its three indexes.

| file | content |
|---|---|
| `.log` | batches, one after the other |
| `.index` | offset -> position, about one entry every index.interval.bytes |
| `.timeindex` | largest timestamp so far -> offset (KIP-33) |
| `.txnindex` | aborted transactions; exists only if there are any |

Descriptors: the active segment has an open one for its log from the first append on, and its indexes
are in memory. Any other segment has only descriptors of files with unsynced changes; see
`tidelog.storage.disk.on_demand_file`.
I/O: through `tidelog.storage.disk.files`. Errors: OSError, StorageFailure, CorruptIndex by file name.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOENT

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.files import File, FileSystem
from tidelog.storage.disk.log_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from tidelog.storage.disk.on_demand_file import OnDemandFile, UnsyncedChanges
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.segment_index import SegmentIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex


class SegmentFiles:
    """The names, descriptors and durability of the files of one segment.

    `log` changes when the segment is opened for appending, released or relocated. The indexes are the same
    objects for as long as the segment exists.
    """

    __slots__ = (
        "_base_offset",
        "_fs",
        "_is_retired",
        "directory",
        "is_open_for_appending",
        "log",
        "offset_index",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: Offset,
        index_bytes: int,
        *,
        create: bool,
        suffix: str,
    ) -> None:
        """Open or create the files; missing indexes are created empty (recovery looks for them before)."""

        def file(kind: str) -> OnDemandFile:
            path = f"{directory}/{file_name(base_offset, kind)}{suffix}"
            found = OnDemandFile(fs, path)
            if found.exists or kind == TXN_INDEX_SUFFIX:
                return found
            if kind == LOG_SUFFIX and not create:
                raise FileNotFoundError(ENOENT, "No such segment", path)
            fs.create(path)
            return OnDemandFile(fs, path)

        self.directory = directory
        self._base_offset = base_offset
        self._fs = fs
        self.is_open_for_appending = False
        self._is_retired = False
        self.log: File = file(LOG_SUFFIX)
        self.offset_index = OffsetIndex(file(OFFSET_INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(file(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.txn_index = TransactionIndex(file(TXN_INDEX_SUFFIX), base_offset)

    @property
    def indexes(self) -> tuple[SegmentIndex, ...]:
        """The indexes in the order of INDEX_SUFFIXES."""
        return self.offset_index, self.time_index, self.txn_index

    @property
    def _all(self) -> tuple[File, ...]:
        """The files in the order of SEGMENT_SUFFIXES."""
        return self.log, *(index.file for index in self.indexes)

    # -- descriptors and memory

    def open_for_appending(self) -> None:
        """Open what appends and truncations need, so that they cannot fail later for lack of a descriptor."""
        if isinstance(self.log, OnDemandFile):
            self.log = self.log.open_for_writing()
        for index in self.indexes:
            index.load()
        self.is_open_for_appending = True

    def unload_indexes(self) -> None:
        """Release the memory of indexes that are complete."""
        self.is_open_for_appending = False
        for index in self.indexes:
            index.unload()

    def release_descriptors(self) -> None:
        """Close the descriptors, as everything is durable; readers keep theirs."""
        if not isinstance(self.log, OnDemandFile) and not self._is_retired:
            self.is_open_for_appending = False
            self.log = OnDemandFile(self._fs, self.log.path, self.log.size())

    def retire(self, *, has_path: bool) -> None:
        """Cache no descriptors from now on; with `has_path` False no file can be opened again."""
        self._is_retired = True
        for file in self._all:
            if isinstance(file, OnDemandFile):
                file.retire(has_path=has_path)

    def close(self) -> None:
        """Close the files; reads of slices fail from now on."""
        for index in self.indexes:
            index.close()
        self.log.close()

    # -- durability

    def write_indexes(self) -> None:
        """Write all changes to the index files; see `tidelog.storage.segment.entry_file`."""
        for index in self.indexes:
            index.write()

    def unsynced_changes(self) -> list[UnsyncedChanges]:
        """Return the unsynced changes of on-demand files; the log file of an active segment is not one."""
        found = (file.unsynced_changes() for file in self._all if isinstance(file, OnDemandFile))
        return [changes for changes in found if changes is not None]

    def sync(self) -> None:
        """Make the log and then the indexes durable; only for the owner of the segment.

        Errors: OSError if a file cannot be opened, StorageFailure if an fsync fails.
        """
        self.log.fsync()
        self.sync_indexes()

    def sync_indexes(self) -> None:
        """Make the indexes durable."""
        for index in self.indexes:
            index.flush()

    # -- names

    def rename(self, fs: FileSystem, old_suffix: str, new_suffix: str) -> list[str]:
        """Change the suffix of the files and return the new paths; missing files are ignored.

        Descriptors of a deleted segment are not cached, so that its space is free after it is unlinked.
        """
        renamed = []
        for kind, file in zip(SEGMENT_SUFFIXES, self._all, strict=True):
            path = f"{self.directory}/{file_name(self._base_offset, kind)}"
            if not fs.exists(path + old_suffix):
                continue
            if isinstance(file, OnDemandFile):
                file.rename(path + new_suffix)
            else:
                fs.rename(path + old_suffix, path + new_suffix)
            renamed.append(path + new_suffix)
        if new_suffix == DELETED_SUFFIX:
            self.retire(has_path=True)
        return renamed

    def relocate(self, directory: str) -> None:
        """Use the copies in `directory` from now on, which are durable and have the same bytes."""
        assert not self.is_open_for_appending, f"{self.log.path} is active"
        self.directory = directory
        for kind, file in zip(SEGMENT_SUFFIXES, self._all, strict=True):
            path = f"{directory}/{file_name(self._base_offset, kind)}"
            if isinstance(file, OnDemandFile):
                file.relocate(path)
            else:
                # The log of a segment that was not flushed yet.
                self.log = OnDemandFile(self._fs, path, file.size())

    def relocate_active(self, directory: str, file: File, index_files: Sequence[OnDemandFile]) -> None:
        """Use `file`, an open copy of the log in `directory`; the indexes are in memory and written later.

        `index_files` are empty or do not exist.
        """
        assert self.is_open_for_appending, f"{self.log.path} is not open for appending"
        self.directory = directory
        self.log = file
        for index, index_file in zip(self.indexes, index_files, strict=True):
            index.file.close()
            index.replace_file(index_file)


def remove_segment_files(fs: FileSystem, directory: str, base_offset: Offset, suffix: str = "") -> None:
    """Unlink the files of a segment that have `suffix` after their names."""
    for kind in SEGMENT_SUFFIXES:
        path = f"{directory}/{file_name(base_offset, kind)}{suffix}"
        if fs.exists(path):
            fs.unlink(path)
