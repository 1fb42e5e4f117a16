"""A disk in memory that loses unsynced changes, for tests that crash at every operation.

Each file has a durable image and a list of unsynced changes. Changes of names (create, rename, unlink) are
durable only after `fsync_dir`. Only fsync orders changes: after a crash any subset of the unsynced changes
may have survived, and the last write may be partial. Other faults are a full disk, an fsync that fails and
drops its pages, and flipped bits. `tests.support.disks.crash_points` crashes a workload at every operation.
"""

from __future__ import annotations

import errno
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import Buffer, DiskSpace, File, FileLock, FileSystem
from tidelog.testing.simulation.crash_images import (
    FileWrite,
    Survival,
    Truncation,
    apply,
    random_part,
    surviving_image,
)

TOTAL_BYTES = 1 << 40


class SimulatedCrash(BaseException):
    """The power failed; not an Exception, so that no `except Exception` catches it."""


@dataclass(eq=False)
class _Inode:
    synced: bytes = b""
    current: bytearray = field(default_factory=bytearray)
    pending: list[FileWrite | Truncation] = field(default_factory=list)

    def change(self, change: FileWrite | Truncation) -> None:
        apply(self.current, change)
        self.pending.append(change)

    def sync(self) -> None:
        image = bytearray(self.synced)
        for change in self.pending:
            apply(image, change)
        self.synced = bytes(image)
        self.pending.clear()


@dataclass(eq=False)
class _Directory:
    current: dict[str, _Inode | _Directory] = field(default_factory=dict)
    durable: dict[str, _Inode | _Directory] = field(default_factory=dict)


class _NameChange(NamedTuple):
    """Names that change together or not at all; None removes a name."""

    assignments: tuple[tuple[_Directory, str, _Inode | _Directory | None], ...]


class CrashFile(File):
    """A file of a CrashFileSystem."""

    def __init__(self, disk: CrashFileSystem, path: str, inode: _Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.current)

    def pread(self, length: int, position: int) -> bytes:
        self._disk.require_power()
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
            if self._disk.takes_sync_fault(self.path):
                self._inode.pending.clear()
                raise StorageFailure(self.path, "fsync", "Input/output error")
            self._inode.sync()

    def close(self) -> None:
        pass

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self.path} is in memory and has no descriptor")


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
        self._has_power = True
        self._sync_faults: list[str] = []
        self._root = _Directory()
        self._pending_names: list[_NameChange] = []

    # -- controlled by the test

    @property
    def operation_count(self) -> int:
        """Return the number of operations so far."""
        return len(self.operations)

    @property
    def has_power(self) -> bool:
        """Return whether the crash has not happened yet."""
        return self._has_power

    def sync_all(self) -> None:
        """Make everything durable and restart counting, as the start of the tested part."""
        for change in self._pending_names:
            _assign(change)
        self._pending_names.clear()
        for inode in _inodes(self._root):
            inode.sync()
        self.operations.clear()

    def fail_next_fsync(self, path_part: str) -> None:
        """Let the next fsync of a path with `path_part` fail and lose the unsynced pages, as in Linux."""
        self._sync_faults.append(path_part)

    def flip_bit(self, path: str, bit: int) -> None:
        """Flip one bit of a file on the disk and in the cache; bit 0 is the lowest bit of byte 0."""
        inode = self._inode(path)
        inode.sync()
        inode.current[bit // 8] ^= 1 << bit % 8
        inode.synced = bytes(inode.current)

    def crash(self, survival: Survival | int) -> CrashFileSystem:
        """Return the disk after a crash; this disk is unchanged and can crash in other ways."""
        chooser = random.Random(survival) if isinstance(survival, int) else None
        names = self._surviving_names(survival, chooser)
        last_write = max(
            (change.sequence for inode in self._all_inodes() for change in inode.pending), default=-1
        )
        entries: dict[int, dict[str, _Inode | _Directory]] = {}
        for change in names:
            for directory, name, node in change.assignments:
                copy = entries.setdefault(id(directory), dict(directory.durable))
                if node is None:
                    copy.pop(name, None)
                else:
                    copy[name] = node
        contents: dict[int, _Inode] = {}

        def survivor(node: _Inode | _Directory) -> _Inode | _Directory:
            if isinstance(node, _Inode):
                if id(node) not in contents:
                    image = surviving_image(node.synced, node.pending, survival, chooser, last_write)
                    contents[id(node)] = _Inode(image, bytearray(image))
                return contents[id(node)]
            listing = entries.get(id(node), node.durable)
            children = {name: survivor(child) for name, child in sorted(listing.items())}
            return _Directory(dict(children), dict(children))

        disk = CrashFileSystem(free_bytes=self.free_bytes)
        root = survivor(self._root)
        assert isinstance(root, _Directory)
        disk._root = root
        return disk

    def image_digest(self) -> bytes:
        """Return a digest of the names and contents of all files: equal disks have equal digests."""
        digest = blake2b()
        _add_to_digest(self._root, digest)
        return digest.digest()

    # -- used by files

    def require_power(self) -> None:
        """Raise SimulatedCrash after the power failed."""
        if not self._has_power:
            raise SimulatedCrash(self.operations[-1])

    def operation(self, text: str) -> _Step:
        """Count a change that may survive; the crash follows it."""
        self.require_power()
        self.operations.append(text)
        return _Step(self, len(self.operations))

    def barrier(self, text: str) -> _Step:
        """Count a sync; the crash precedes its effect."""
        step = self.operation(text)
        self.crash_if_due()
        return step

    def crash_if_due(self) -> None:
        """Fail the power if this operation is the last one."""
        if self._has_power and len(self.operations) == self.crash_at:
            self._has_power = False
            raise SimulatedCrash(self.operations[-1])

    def takes_sync_fault(self, path: str) -> bool:
        """Return whether this fsync fails; a fault is used once."""
        for part in self._sync_faults:
            if part in path:
                self._sync_faults.remove(part)
                return True
        return False

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
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file", path)
            node = _Inode()
            with self.operation(f"create {path}"):
                self._change_names((directory, name, node))
        return CrashFile(self, path, node)

    def create(self, path: str) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._open_file(path, create=True)

    def exists(self, path: str) -> bool:
        self.require_power()
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.require_power()
        return isinstance(self._find(path), _Directory)

    def size(self, path: str) -> int:
        return len(self._inode(path).current)

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).current)

    def rename(self, old: str, new: str) -> None:
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        node = source.current.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", old)
        replaced = target.current.get(new_name)
        if isinstance(replaced, _Directory) and replaced.current:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", new)
        with self.operation(f"rename {old} to {new}"):
            self._change_names((source, old_name, None), (target, new_name, node))

    def unlink(self, path: str) -> None:
        directory, name = self._parent(path)
        inode = self._inode(path)
        with self.operation(f"unlink {path}"):
            self.give_room(len(inode.current))
            self._change_names((directory, name, None))

    def listdir(self, path: str) -> list[str]:
        return sorted(self._directory(path).current)

    def makedirs(self, path: str) -> None:
        directory = self._root
        for name in _names(path):
            node = directory.current.get(name)
            if isinstance(node, _Inode):
                raise FileExistsError(errno.EEXIST, "A file has this name", path)
            if node is None:
                node = _Directory()
                with self.operation(f"mkdir {name} of {path}"):
                    self._change_names((directory, name, node))
            directory = node

    def rmtree(self, path: str) -> None:
        for name, node in sorted(self._directory(path).current.items()):
            (self.rmtree if isinstance(node, _Directory) else self.unlink)(f"{path}/{name}")
        directory, name = self._parent(path)
        with self.operation(f"rmdir {path}"):
            self._change_names((directory, name, None))

    def fsync_dir(self, path: str) -> None:
        directory = self._directory(path)
        with self.barrier(f"fsync_dir {path}"):
            if self.takes_sync_fault(path):
                raise StorageFailure(path, "fsync", "Input/output error")
            waiting = []
            for change in self._pending_names:
                if any(touched is directory for touched, _, _ in change.assignments):
                    _assign(change)
                else:
                    waiting.append(change)
            self._pending_names = waiting

    def space(self, path: str) -> DiskSpace:
        return DiskSpace(TOTAL_BYTES, TOTAL_BYTES if self.free_bytes is None else self.free_bytes)

    def lock(self, path: str) -> FileLock:
        return CrashFileLock()

    # -- internal

    def _change_names(self, *assignments: tuple[_Directory, str, _Inode | _Directory | None]) -> None:
        for directory, name, node in assignments:
            if node is None:
                directory.current.pop(name, None)
            else:
                directory.current[name] = node
        self._pending_names.append(_NameChange(assignments))

    def _surviving_names(self, survival: Survival | int, chooser: random.Random | None) -> list[_NameChange]:
        if chooser is not None:
            return random_part(self._pending_names, chooser)
        if survival in (Survival.LOSE_UNSYNCED, Survival.KEEP_DATA_ONLY):
            return []
        return self._pending_names

    def _all_inodes(self) -> list[_Inode]:
        inodes = {id(inode): inode for inode in _inodes(self._root)}
        for change in self._pending_names:
            for _, _, node in change.assignments:
                for inode in [node] if isinstance(node, _Inode) else _inodes(node) if node else []:
                    inodes[id(inode)] = inode
        return list(inodes.values())

    def _find(self, path: str) -> _Inode | _Directory | None:
        node: _Inode | _Directory | None = self._root
        for name in _names(path):
            if not isinstance(node, _Directory):
                return None
            node = node.current.get(name)
        return node

    def _inode(self, path: str) -> _Inode:
        self.require_power()
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return node

    def _directory(self, path: str) -> _Directory:
        self.require_power()
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        *parents, name = _names(path)
        return self._directory("/".join(parents)), name


@lru_cache(maxsize=4096)
def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _assign(change: _NameChange) -> None:
    for directory, name, node in change.assignments:
        if node is None:
            directory.durable.pop(name, None)
        else:
            directory.durable[name] = node


def _add_to_digest(directory: _Directory, digest: blake2b) -> None:
    for name, node in sorted(directory.current.items()):
        content = b"" if isinstance(node, _Directory) else bytes(node.current)
        digest.update(f"{name}/{type(node).__name__}/{len(content)}/".encode() + content)
        if isinstance(node, _Directory):
            _add_to_digest(node, digest)
            digest.update(b"..")


def _inodes(directory: _Directory) -> Iterator[_Inode]:
    for node in [*directory.current.values(), *directory.durable.values()]:
        if isinstance(node, _Directory):
            yield from _inodes(node)
        else:
            yield node


class CrashFileLock(FileLock):
    """A lock that is always free: one process at a time uses this disk, and a crash releases its locks."""

    def release(self) -> None:
        """Do nothing."""
