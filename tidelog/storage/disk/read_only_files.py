"""Files opened for reading only: the inspection of a log directory cannot change it, even by mistake.

A directory may belong to a running broker, to another user, or to a read-only volume.
"""

from __future__ import annotations

import io
import os

from tidelog.storage.disk.files import Buffer, File
from tidelog.storage.disk.os_files import OsFileSystem


class UnwritableFile(File):
    """A file that refuses all changes.

    Errors: io.UnsupportedOperation.
    """

    __slots__ = ()

    def append(self, data: Buffer) -> None:
        self._refuse("append")

    def pwrite(self, data: Buffer, position: int) -> None:
        self._refuse("overwrite")

    def truncate(self, size: int) -> None:
        self._refuse("truncate")

    def fsync(self) -> None:
        self._refuse("sync")

    def _refuse(self, operation: str) -> None:
        raise io.UnsupportedOperation(f"{self.path} is open for reading only, not to {operation}")


class ReadOnlyFile(UnwritableFile):
    """A file of the operating system without any way to write to it.

    `size` is the size at the time of opening: what a running broker appends later is not read.
    """

    __slots__ = ("_descriptor", "_size", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._descriptor).st_size

    def size(self) -> int:
        return self._size

    def pread(self, length: int, position: int) -> bytes:
        parts: list[bytes] = []
        missing = min(length, max(0, self._size - position))
        while missing and (data := os.pread(self._descriptor, missing, position)):
            parts.append(data)
            missing -= len(data)
            position += len(data)
        return b"".join(parts)

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def fileno(self) -> int:
        return self._descriptor


class ReadOnlyFileSystem(OsFileSystem):
    """The operating system's files, which are opened for reading only."""

    def open(self, path: str, *, create: bool) -> File:
        if create:
            raise io.UnsupportedOperation(f"{path} would be created for reading only")
        return ReadOnlyFile(path)

    def open_to_keep(self, path: str, *, create: bool) -> File:
        return self.open(path, create=create)

    def create(self, path: str) -> None:
        raise io.UnsupportedOperation(f"{path} would be created for reading only")
