"""A file that is made when the first byte is written; until then it is an empty one.

Kafka makes `.txnindex` files only for segments that need them, and so do we: most never have an
aborted transaction.
"""

from __future__ import annotations

import io

from storage.files import Buffer, File, FileSystem, parent_directory


class LazyFile(File):
    """Behaves as `storage.files.File`; opens an existing file at once, makes a missing one on demand.

    I/O: the `fsync` after the file was made also syncs the directory, so that its name is durable.
    """

    __slots__ = ("_file", "_file_system", "_is_new", "path")

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self.path = path
        self._file_system = file_system
        self._is_new = False
        self._file: File | None = file_system.open(path, create=False) if file_system.exists(path) else None

    def size(self) -> int:
        return 0 if self._file is None else self._file.size()

    def pread(self, length: int, position: int) -> bytes:
        return b"" if self._file is None else self._file.pread(length, position)

    def append(self, data: Buffer) -> None:
        self._made().append(data)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._made().pwrite(data, position)

    def truncate(self, size: int) -> None:
        if self._file is not None:
            self._file.truncate(size)

    def fsync(self) -> None:
        if self._file is None:
            return
        self._file.fsync()
        if self._is_new:
            self._file_system.fsync_dir(parent_directory(self.path))
            self._is_new = False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def fileno(self) -> int:
        if self._file is None:
            raise io.UnsupportedOperation(f"{self.path} does not exist yet")
        return self._file.fileno()

    def _made(self) -> File:
        if self._file is None:
            made = self._file_system.open(self.path, create=True)
            self._is_new = True  # before the file is seen: another thread may be in fsync
            self._file = made
        return self._file
