"""An index that found no room on the disk: it is read from memory, by those who wait for it just now."""

from __future__ import annotations

import io

from storage.files import Buffer, File


class MemoryFile(File):
    """Bytes that look like a file opened for reading."""

    __slots__ = ("_data", "path")

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]

    def append(self, data: Buffer) -> None:
        self._refuse("append")

    def pwrite(self, data: Buffer, position: int) -> None:
        self._refuse("overwrite")

    def truncate(self, size: int) -> None:
        self._refuse("truncate")

    def fsync(self) -> None:
        self._refuse("sync")

    def close(self) -> None:
        """Nothing is held open."""

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self.path} is in memory only")

    def _refuse(self, operation: str) -> None:
        raise io.UnsupportedOperation(f"{self.path} is there for reading only, not to {operation}")
