"""Files that have a descriptor only while they need one: sealed segments, and indexes.

A node has thousands of them, and no more descriptors than the operating system allows.

| the file | its descriptor |
|---|---|
| has changes that are not known to be durable | is its own |
| was read recently | is in the pool of the file system |
| otherwise | is closed |

A file with unsynced changes stays open until they are synced: what the kernel fails to write in between
is reported by an fsync of that descriptor, but perhaps not by one of a descriptor that is opened later.

A missing file is an empty one, and created by the first write: most segments never have an aborted
transaction.

Threads: any thread may read; only the owner of the log changes it. I/O: `tidelog.storage.disk.files`.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from tidelog.storage.disk.files import Buffer, File, FileSystem, parent_directory


class UnsyncedChanges(NamedTuple):
    """What a file needs to become durable; the caller calls `OnDemandFile.synced` after the fsync."""

    owner: OnDemandFile
    file: File
    change_count: int
    is_new: bool
    """Its name is not known to be durable, so that the directory has to be synced too."""


class OnDemandFile(File):
    """A file that is opened when it is needed. `fsync` is for the owner; other threads use `unsynced`."""

    __slots__ = (
        "_change_count",
        "_exists",
        "_file_system",
        "_has_no_path",
        "_is_new",
        "_size",
        "_unsynced",
        "is_in_use",
        "path",
    )

    def __init__(self, file_system: FileSystem, path: str, size: int | None = None) -> None:
        """`size` is that of a file that exists; None: look at it."""
        self.path = path
        self.is_in_use = True
        """Whether to cache a descriptor in the pool; it would keep the space of a deleted file occupied."""
        self._file_system = file_system
        self._unsynced: File | None = None
        self._change_count = 0
        self._is_new = False
        self._has_no_path = False
        self._exists = True
        try:
            self._size = file_system.size(path) if size is None else size
        except FileNotFoundError:
            self._size = 0
            self._exists = False

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._exists

    # -- reading

    def size(self) -> int:
        return self._size

    def pread(self, length: int, position: int) -> bytes:
        return self.hold().pread(length, position) if self._exists else b""

    def hold(self) -> File:
        assert self._exists, f"{self.path} does not exist"
        # Read only once, as the owner may close the file meanwhile.
        unsynced = self._unsynced
        return self._file_system.pool.opened(self) if unsynced is None else unsynced

    def fileno(self) -> int:
        """Return a descriptor that the pool may close at any time; for longer use that of `held`."""
        return self.hold().fileno()

    def open(self) -> File:
        """Return a new open file, for reading and writing; the caller has the pool's lock.

        Errors: OSError, FileNotFoundError for a file whose directory may belong to another log now.
        """
        if self._has_no_path:
            raise FileNotFoundError(errno.ENOENT, "the partition is no longer in use", self.path)
        return self._file_system.open_to_keep(self.path, create=not self._exists)

    # -- changing

    def open_for_writing(self) -> File:
        """Return the open file, for an owner that changes it often, and knows when it is durable."""
        with self._file_system.pool.lock:
            return self._unsynced or self.open()

    def append(self, data: Buffer) -> None:
        file = self._changing()
        file.append(data)
        self._size = file.size()

    def pwrite(self, data: Buffer, position: int) -> None:
        file = self._changing()
        file.pwrite(data, position)
        self._size = file.size()

    def truncate(self, size: int) -> None:
        if size < self._size:
            file = self._changing()
            file.truncate(size)
            self._size = file.size()

    def _changing(self) -> File:
        file = self._unsynced
        if file is None:
            pool = self._file_system.pool
            with pool.lock:
                file = self.open()
                pool.forget(self)
            if not self._exists:
                self._exists = self._is_new = True
            self._unsynced = file
        self._change_count += 1
        return file

    # -- durability

    def unsynced_changes(self) -> UnsyncedChanges | None:
        """Return what has to be synced, in any thread; None if everything is durable."""
        file = self._unsynced
        return None if file is None else UnsyncedChanges(self, file, self._change_count, self._is_new)

    def on_synced(self, changes: UnsyncedChanges) -> None:
        """Close the file if it has not changed since `changes` were read: they are durable now."""
        if changes.change_count == self._change_count:
            self._unsynced = None
            self._is_new = False

    def fsync(self) -> None:
        changes = self.unsynced_changes()
        if changes is None:
            return
        changes.file.fsync()
        if changes.is_new:
            self._file_system.fsync_dir(parent_directory(self.path))
        self.on_synced(changes)

    def close(self) -> None:
        self._unsynced = None
        self._file_system.pool.forget(self)

    # -- names

    def rename(self, path: str) -> None:
        """Rename the file, which is opened by the new name from now on."""
        with self._file_system.pool.lock:
            self._file_system.rename(self.path, path)
            self.path = path

    def relocate(self, path: str) -> None:
        """Use the file `path` from now on, which is durable and has the same bytes; close the previous one.

        Files that readers opened before remain readable.
        """
        with self._file_system.pool.lock:
            self.path = path
            self._unsynced = None
            self._is_new = False
            self._change_count += 1
            self._file_system.pool.forget(self)

    def retire(self, *, has_path: bool) -> None:
        """Cache no descriptor, as the file is deleted; with `has_path` False it cannot be opened again.

        Files that readers opened before remain readable.
        """
        with self._file_system.pool.lock:
            self.is_in_use = False
            self._has_no_path = self._has_no_path or not has_path
            self._file_system.pool.forget(self)
