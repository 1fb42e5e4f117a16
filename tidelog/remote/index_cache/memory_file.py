"""An index in memory that could not be written to disk."""

from __future__ import annotations

import io

from tidelog.storage.disk.read_only_files import UnwritableFile


class MemoryFile(UnwritableFile):
    """Bytes with the interface of a file that is open for reading."""

    __slots__ = ("_data", "path")

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]

    def close(self) -> None:
        """Do nothing: no file is open."""

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self.path} is in memory only")
