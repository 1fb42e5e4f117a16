"""A disk in memory that loses unsynced changes, for tests that crash at every operation.

Changes of names (create, rename, unlink) are durable only after `fsync_dir`. Only fsync orders changes: after
a crash any subset of the unsynced writes may have survived, and the last one may be partial. The unsynced
changes of names in one directory survive in their order (`CrashTree`).
Other faults are a full disk, reads and changes that fail, an fsync that fails and drops its pages, and
flipped bits.
`tests.support.disks.crash_points` crashes a workload at every operation.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Callable

from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import Buffer, DiskSpace, File, FileLock, FileSystem
from tidelog.testing.simulation.crash_images import FileWrite, Survival, Truncation
from tidelog.testing.simulation.crash_tree import CrashTree, Directory, Inode, names_of

TOTAL_BYTES = 1 << 40


class SimulatedCrash(BaseException):
    """The power failed; not an Exception, so that no `except Exception` catches it."""


class CrashFile(File):
    """A file of a CrashFileSystem."""

    def __init__(self, disk: CrashFileSystem, path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.current)

    def pread(self, length: int, position: int) -> bytes:
        self._disk.begin_operation(self.path)
        return bytes(self._inode.current[position : position + length])

    def append(self, data: Buffer) -> None:
        start = len(self._inode.current)
        with self._disk.operation(f"append {len(data)} bytes to {self.path}") as sequence:
            room = self._disk.take_room(len(data))
            self._inode.change(FileWrite(sequence, start, bytes(data[:room])))
            if room < len(data):
                self._inode.change(Truncation(sequence, start))
                self._disk.give_room(room)
                raise OSError(errno.ENOSPC, "No space left on device", self.path)

    def pwrite(self, data: Buffer, position: int) -> None:
        with self._disk.operation(f"overwrite {len(data)} bytes of {self.path}") as sequence:
            self._inode.change(FileWrite(sequence, position, bytes(data)))

    def truncate(self, size: int) -> None:
        if size >= len(self._inode.current):
            return
        with self._disk.operation(f"truncate {self.path} to {size}") as sequence:
            self._disk.give_room(len(self._inode.current) - size)
            self._inode.change(Truncation(sequence, size))

    def fsync(self) -> None:
        with self._disk.barrier(f"fsync {self.path}"):
            if self._disk.sync_faults.take(self.path):
                self._inode.pending.clear()
                raise StorageFailure(self.path, "fsync", "Input/output error")
            self._inode.sync()

    def close(self) -> None:
        pass

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self.path} is in memory and has no descriptor")


class SyncFaults:
    """The fsyncs that will fail, each once: those of a path with one of `path_parts`."""

    def __init__(self) -> None:
        self.path_parts: list[str] = []

    def take(self, path: str) -> bool:
        """Return whether this fsync fails."""
        for part in self.path_parts:
            if part in path:
                self.path_parts.remove(part)
                return True
        return False


class _Step:
    """One counted operation; after it, the disk crashes if it is the last operation before the crash."""

    def __init__(self, disk: CrashFileSystem, sequence: int) -> None:
        self._disk = disk
        self._sequence = sequence

    def __enter__(self) -> int:
        return self._sequence

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._disk.crash_if_due()


class CrashFileSystem(FileSystem):
    """The disk. `operation_count` counts its changes; at operation `crash_at` the power fails."""

    def __init__(self, *, crash_at: int | None = None, free_bytes: int | None = None) -> None:
        self.pool: DescriptorPool[File] = DescriptorPool()
        self.crash_at = crash_at
        self.free_bytes = free_bytes
        self.operations: list[str] = []
        self.on_operation: Callable[[str], None] | None = None
        """Called before each change with its text; may set `crash_at`, or raise SimulatedCrash."""
        self.fails_now: Callable[[], bool] | None = None
        """Called before each read and each change: whether it fails with EIO, without an effect."""
        self.has_power = True
        """Whether the crash has not happened yet."""
        self.sync_faults = SyncFaults()
        self._tree = CrashTree()

    # -- controlled by the test

    @property
    def operation_count(self) -> int:
        """Return the number of operations so far."""
        return len(self.operations)

    def sync_all(self) -> None:
        """Make everything durable and restart counting, as the start of the tested part."""
        self._tree.sync_all()
        self.operations.clear()

    def fail_next_fsync(self, path_part: str) -> None:
        """Let the next fsync of a path with `path_part` fail and lose the unsynced pages, as in Linux."""
        self.sync_faults.path_parts.append(path_part)

    def flip_bit(self, path: str, bit: int) -> None:
        """Flip one bit of a file on the disk and in the cache; bit 0 is the lowest bit of byte 0."""
        self._inode(path).flip_bit(bit)

    def first_unsynced(self, path: str) -> int | None:
        """Return the lowest position of a file that was written and not synced; None if there is none."""
        changes = self._tree.inode(path).pending
        return min((each.position for each in changes if isinstance(each, FileWrite)), default=None)

    def crash(self, survival: Survival | int) -> CrashFileSystem:
        """Return the disk after a crash; this disk is unchanged and can crash in other ways."""
        return self._successor(self._tree.after_crash(survival))

    def reopened(self) -> CrashFileSystem:
        """Return the same disk for the next process; each use of this object raises SimulatedCrash."""
        disk = self._successor(self._tree)
        disk.sync_faults = self.sync_faults
        self.has_power = False
        return disk

    def _successor(self, tree: CrashTree) -> CrashFileSystem:
        disk = CrashFileSystem(free_bytes=self.free_bytes)
        disk.fails_now = self.fails_now
        disk._tree = tree
        return disk

    def image_digest(self) -> bytes:
        """Return a digest of the names and contents of all files: equal disks have equal digests."""
        return self._tree.digest()

    # -- used by files

    def _require_power(self) -> None:
        """Raise SimulatedCrash after the power failed."""
        if not self.has_power:
            raise SimulatedCrash(self.operations[-1])

    def begin_operation(self, target: str) -> None:
        """Raise SimulatedCrash after the power failed, and OSError if the disk fails now."""
        self._require_power()
        if self.fails_now is not None and self.fails_now():
            raise OSError(errno.EIO, "Input/output error", target)

    def operation(self, text: str) -> _Step:
        """Count a change that may survive; the crash follows it. Errors: OSError if it fails."""
        self.begin_operation(text)
        return self._step(text)

    def _step(self, text: str) -> _Step:
        self.operations.append(text)
        if self.on_operation is not None:
            self.on_operation(text)
        return _Step(self, len(self.operations))

    def barrier(self, text: str) -> _Step:
        """Count a sync; the crash precedes its effect. Errors: StorageFailure if it fails."""
        try:
            self.begin_operation(text)
        except OSError as error:
            raise StorageFailure(text, "fsync", "Input/output error") from error
        step = self._step(text)
        self.crash_if_due()
        return step

    def crash_if_due(self) -> None:
        """Fail the power if this operation is the last one."""
        if self.has_power and len(self.operations) == self.crash_at:
            self.has_power = False
            raise SimulatedCrash(self.operations[-1])

    def take_room(self, wanted: int) -> int:
        """Return how many of the bytes fit on the disk."""
        if self.free_bytes is None:
            return wanted
        taken = min(wanted, self.free_bytes)
        self.free_bytes -= taken
        return taken

    def give_room(self, count: int) -> None:
        """Release bytes."""
        if self.free_bytes is not None:
            self.free_bytes += count

    # -- FileSystem

    def open(self, path: str, *, create: bool) -> File:
        return self._open_file(path, create=create)

    def _open_file(self, path: str, *, create: bool) -> File:
        directory, name = self._parent(path)
        node = directory.current.get(name)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file", path)
            node = Inode()
            with self.operation(f"create {path}"):
                self._tree.change_names((directory, name, node))
        return CrashFile(self, path, node)

    def create(self, path: str) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._open_file(path, create=True)

    def exists(self, path: str) -> bool:
        self._require_power()
        return self._tree.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self._require_power()
        return isinstance(self._tree.find(path), Directory)

    def size(self, path: str) -> int:
        return len(self._inode(path).current)

    def read(self, path: str) -> bytes:
        self.begin_operation(path)
        return bytes(self._inode(path).current)

    def rename(self, old: str, new: str) -> None:
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        node = source.current.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", old)
        replaced = target.current.get(new_name)
        if isinstance(replaced, Directory) and replaced.current:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", new)
        with self.operation(f"rename {old} to {new}"):
            self._tree.change_names((source, old_name, None), (target, new_name, node))

    def unlink(self, path: str) -> None:
        directory, name = self._parent(path)
        inode = self._inode(path)
        with self.operation(f"unlink {path}"):
            self.give_room(len(inode.current))
            self._tree.change_names((directory, name, None))

    def listdir(self, path: str) -> list[str]:
        self.begin_operation(path)
        return sorted(self._directory(path).current)

    def makedirs(self, path: str) -> None:
        directory = self._tree.root
        for name in names_of(path):
            node = directory.current.get(name)
            if isinstance(node, Inode):
                raise FileExistsError(errno.EEXIST, "A file has this name", path)
            if node is None:
                node = Directory()
                with self.operation(f"mkdir {name} of {path}"):
                    self._tree.change_names((directory, name, node))
            directory = node

    def rmtree(self, path: str) -> None:
        for name, node in sorted(self._directory(path).current.items()):
            (self.rmtree if isinstance(node, Directory) else self.unlink)(f"{path}/{name}")
        directory, name = self._parent(path)
        with self.operation(f"rmdir {path}"):
            self._tree.change_names((directory, name, None))

    def fsync_dir(self, path: str) -> None:
        directory = self._directory(path)
        with self.barrier(f"fsync_dir {path}"):
            if self.sync_faults.take(path):
                raise StorageFailure(path, "fsync", "Input/output error")
            self._tree.sync_names(directory)

    def space(self, path: str) -> DiskSpace:
        return DiskSpace(TOTAL_BYTES, TOTAL_BYTES if self.free_bytes is None else self.free_bytes)

    def lock(self, path: str) -> FileLock:
        return CrashFileLock()

    def _inode(self, path: str) -> Inode:
        self._require_power()
        return self._tree.inode(path)

    def _directory(self, path: str) -> Directory:
        self._require_power()
        return self._tree.directory(path)

    def _parent(self, path: str) -> tuple[Directory, str]:
        self._require_power()
        return self._tree.parent(path)


class CrashFileLock(FileLock):
    """A lock that is always free: one process at a time uses this disk, and a crash releases its locks."""

    def release(self) -> None:
        """Do nothing."""
