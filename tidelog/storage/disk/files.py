"""The port to the disk: storage reads and writes every byte through these two Protocols.

Durability rules that callers rely on:
- data appended or truncated is durable once `File.fsync` has returned;
- a file's *name* (create, rename, unlink) is durable once `FileSystem.fsync_dir` of its directory has;
- a failed fsync is final: the kernel may already have dropped the pages, so a second fsync that
  "succeeds" proves nothing. It raises StorageFailure and must never be retried.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias

from tidelog.storage.disk.descriptor_pool import DescriptorPool

Buffer: TypeAlias = bytes | bytearray | memoryview

TEMPORARY_SUFFIX = ".tmp"


class DiskSpace(NamedTuple):
    """The size of the volume of a path and the space that an ordinary user may still use, in bytes."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """One open file. Only one object per file writes; reads and `fsync` may run in any thread.

    Errors: OSError as the disk gives it; StorageFailure when the content is no longer known.
    """

    path: str
    """The name under which the file was opened, or which `relocate` has set."""

    def relocate(self, path: str) -> None:
        """Set the path, because the directory of the file was renamed."""
        self.path = path

    def size(self) -> int:
        """Return the bytes in the file, including unsynced ones, without a system call."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Return `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or nothing: after an OSError the file is as before."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Overwrite at `position`; the file grows when the data reaches beyond its end."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes; a shorter file does not change."""
        ...

    def fsync(self) -> None:
        """Make data and size durable, or raise StorageFailure, after which nothing may be retried."""
        ...

    def close(self) -> None:
        """Release the descriptor; closing twice is harmless. Does not sync."""
        ...

    def fileno(self) -> int:
        """Return the descriptor, for sendfile."""
        ...

    def hold(self) -> File:
        """Return an open file with the same content, which stays readable for as long as it is referenced."""
        return self


class FileLock(Protocol):
    """A lock that is held until `release`, or until its process ends."""

    def release(self) -> None:
        """Release the lock."""
        ...


class FileSystem(Protocol):
    """The directory operations that storage needs. Paths are str, joined with '/'.

    Errors: FileNotFoundError and other OSErrors as the operating system gives them.
    """

    pool: DescriptorPool[File]
    """The descriptors of files that hold one only while they are read; see storage.disk.on_demand_file."""

    def open(self, path: str, *, create: bool) -> File:
        """Open a file for reading and writing; create a missing one with `create`, else FileNotFoundError.

        The caller closes it soon: it may be opened with a descriptor that is kept for such operations.
        """
        ...

    def open_to_keep(self, path: str, *, create: bool) -> File:
        """Open a file that stays open."""
        return self.open(path, create=create)

    def create(self, path: str) -> None:
        """Create an empty file, without holding a descriptor where possible; FileExistsError if it exists."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""
        ...

    def is_dir(self, path: str) -> bool:
        """Return whether `path` is a directory."""
        ...

    def size(self, path: str) -> int:
        """Return the bytes in the file."""
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a small file (checkpoint, snapshot)."""
        ...

    def open_stream(self, path: str) -> BinaryIO:
        """Open a file of any size to read it from its start to its end."""
        return io.BytesIO(self.read(path))

    def rename(self, old: str, new: str) -> None:
        """Give the file or directory another name, replacing a file that has it, atomically."""
        ...

    def unlink(self, path: str) -> None:
        """Remove the file's name."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def makedirs(self, path: str) -> None:
        """Create the directory and its parents, if they do not exist."""
        ...

    def rmtree(self, path: str) -> None:
        """Remove the directory and its contents."""
        ...

    def fsync_dir(self, path: str) -> None:
        """Make the names in the directory durable, or raise StorageFailure."""
        ...

    def space(self, path: str) -> DiskSpace:
        """Return the space on the volume of `path`."""
        ...

    def lock(self, path: str) -> FileLock:
        """Acquire the lock of a file, which is created if missing; BlockingIOError if it is locked."""
        ...


def parent_directory(path: str) -> str:
    """Return the directory of `path`; '.' for a name without a directory."""
    return os.path.dirname(path) or "."


def write_atomically(fs: FileSystem, path: str, data: Buffer) -> None:
    """Replace the file's content so that it has the complete old or new content after a crash.

    It returns when the new content is durable. After a failure before the rename the old content remains.
    Errors: OSError, StorageFailure (from either fsync).
    """
    temporary = path + TEMPORARY_SUFFIX
    file = fs.open(temporary, create=True)
    try:
        file.truncate(0)  # the file may remain from an earlier crash
        file.append(data)
        file.fsync()
    finally:
        file.close()
    fs.rename(temporary, path)
    fs.fsync_dir(parent_directory(path))
