"""The files of the operating system, behind the port of `tidelog.storage.disk.files`."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from typing import BinaryIO, Final, TypeVar

from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.descriptor_reserve import DescriptorReserve
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.disk.files import Buffer, DiskSpace, File, FileLock, FileSystem

T = TypeVar("T")

_NO_MKNOD: Final = frozenset({errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})

# Data and size are all that a log needs after a crash; where fdatasync is missing fsync does more.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class OsFile(File):
    """A file of the operating system.

    Invariant: `_size` is the file's size whenever no call is in progress; writes go to explicit positions,
    so a failed append cannot leave the next one at a wrong place.
    """

    __slots__ = ("_descriptor", "_failure", "_size", "_truncated", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._truncated = False
        self._failure: StorageFailure | None = None

    def size(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._descriptor

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # the kernel stops at 2 GiB, at the end of the file, or for a signal
        missing = length - len(data)
        while missing and (data := os.pread(self._descriptor, missing, position + length - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def append(self, data: Buffer) -> None:
        if self._failure is not None:
            self._refuse_after_failure()
        start, length = self._size, len(data)
        try:
            if os.pwrite(self._descriptor, data, start) < length:
                self._write(data, start)  # once more, until all is written or the disk raises an error
        except OSError:
            self._cut_back(start)
            raise
        self._size = start + length

    def pwrite(self, data: Buffer, position: int) -> None:
        self._refuse_after_failure()
        try:
            self._size = max(self._size, position + self._write(data, position))
        except OSError as error:
            raise self._fail("overwrite", error) from error

    def truncate(self, size: int) -> None:
        self._refuse_after_failure()
        if size >= self._size:
            return
        os.ftruncate(self._descriptor, size)
        self._size = size
        self._truncated = True

    def fsync(self) -> None:
        self._refuse_after_failure()
        assert self._descriptor >= 0, f"{self.path} is closed: it must be synced before it is closed"
        shrunk, self._truncated = self._truncated, False
        try:
            # POSIX allows fdatasync to omit metadata that reads do not need; a smaller size is one
            # that some file systems have left out, so after a truncation everything is synced.
            (os.fsync if shrunk else _sync_data)(self._descriptor)
        except OSError as error:
            raise self._fail("fsync", error) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        # A deleted segment is not closed while a response is sent from it; its last user closes it.
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()

    def _write(self, data: Buffer, position: int) -> int:
        length = len(data)
        written = os.pwrite(self._descriptor, data, position)
        if written < length:
            rest = memoryview(data)
            while written < length:
                count = os.pwrite(self._descriptor, rest[written:], position + written)
                if count == 0:
                    raise OSError(errno.EIO, "the disk accepts no more bytes", self.path)
                written += count
        return length

    def _cut_back(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise self._fail("removal of a partly written append", error) from error

    def _fail(self, operation: str, error: OSError) -> StorageFailure:
        self._failure = StorageFailure(self.path, operation, error.strerror or str(error))
        return self._failure

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            failed = self._failure
            raise StorageFailure(self.path, "use", f"it is closed to writers since: {failed}") from failed


class OsFileSystem(FileSystem):
    """The operating system's files.

    If no descriptor is left, those of the pool are closed and the operation is tried again, then
    those of the reserve, for operations that need one for a short time.
    """

    def __init__(
        self, pool: DescriptorPool[File] | None = None, reserve: DescriptorReserve | None = None
    ) -> None:
        self.pool = DescriptorPool() if pool is None else pool
        self._reserve = DescriptorReserve(0) if reserve is None else reserve

    def open(self, path: str, *, create: bool) -> File:
        return OsFile(path, self._with_descriptor(lambda: _open(path, create=create)))

    def open_to_keep(self, path: str, *, create: bool) -> File:
        while True:
            try:
                return OsFile(path, _open(path, create=create))
            except OSError as error:
                if not is_descriptor_shortage(error) or not self.pool.shrink():
                    raise

    def create(self, path: str) -> None:
        try:
            os.mknod(path, 0o644 | stat.S_IFREG)
        except (AttributeError, OSError) as error:
            # macOS allows it only for root, and some file systems not at all.
            if isinstance(error, OSError) and error.errno not in _NO_MKNOD:
                raise
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL
            os.close(self._with_descriptor(lambda: os.open(path, flags, 0o644)))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def read(self, path: str) -> bytes:
        with self._with_descriptor(lambda: open(path, "rb")) as file:
            return file.read()

    def open_stream(self, path: str) -> BinaryIO:
        return self._with_descriptor(lambda: open(path, "rb"))

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(self._with_descriptor(lambda: os.listdir(path)))

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rmtree(self, path: str) -> None:
        self._with_descriptor(lambda: shutil.rmtree(path))

    def fsync_dir(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self._with_descriptor(lambda: os.open(path, flags))
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise StorageFailure(path, "fsync", error.strerror or str(error)) from error
        finally:
            os.close(descriptor)

    def space(self, path: str) -> DiskSpace:
        volume = os.statvfs(path)
        return DiskSpace(volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize)

    def lock(self, path: str) -> FileLock:
        return OsFileLock(path)

    def _with_descriptor(self, operation: Callable[[], T]) -> T:
        self._reserve.refill()
        while True:
            try:
                return operation()
            except OSError as error:
                if not is_descriptor_shortage(error):
                    raise
                if not self.pool.shrink() and not self._reserve.release_one():
                    raise


def _open(path: str, *, create: bool) -> int:
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)


class OsFileLock(FileLock):
    """Two advisory locks of the operating system on one file; both end with the process, for any reason.

    The record lock is the one of Java's FileLock, so it excludes Apache Kafka too. It does not prevent a
    process from locking twice, but the other lock does.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise BlockingIOError(error.errno, "locked by another process", path) from error

    def release(self) -> None:
        os.close(self._descriptor)
