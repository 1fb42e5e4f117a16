"""The directories and files of a disk in memory: as programs see them, and as a power failure leaves them.

Each file has a durable image and a list of unsynced changes. Changes of names are durable only after a sync
of their directory. After a crash the others may have survived, in each directory only the first ones: file
systems with a journal keep their order. POSIX does not promise this order.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from tidelog.testing.simulation.crash_images import (
    FileWrite,
    Survival,
    Truncation,
    apply,
    random_part,
    surviving_image,
)


@dataclass(eq=False)
class Inode:
    """The content of one file; `current` has the unsynced changes `pending` as well."""

    synced: bytes = b""
    current: bytearray = field(default_factory=bytearray)
    pending: list[FileWrite | Truncation] = field(default_factory=list)

    def change(self, change: FileWrite | Truncation) -> None:
        """Apply a change, which is not synced yet."""
        apply(self.current, change)
        self.pending.append(change)

    def sync(self) -> None:
        """Make all changes durable."""
        image = bytearray(self.synced)
        for change in self.pending:
            apply(image, change)
        self.synced = bytes(image)
        self.pending.clear()

    def flip_bit(self, bit: int) -> None:
        """Flip one bit, durably; bit 0 is the lowest bit of byte 0."""
        self.sync()
        self.current[bit // 8] ^= 1 << bit % 8
        self.synced = bytes(self.current)


@dataclass(eq=False)
class Directory:
    """The names in one directory, as programs see them and as they are durable."""

    current: dict[str, Inode | Directory] = field(default_factory=dict)
    durable: dict[str, Inode | Directory] = field(default_factory=dict)


class _NameChange(NamedTuple):
    """Names that change together or not at all; None removes a name."""

    assignments: tuple[tuple[Directory, str, Inode | Directory | None], ...]


class CrashTree:
    """All directories and files of one disk, and the changes of names that are not durable yet."""

    def __init__(self, root: Directory | None = None) -> None:
        self.root = Directory() if root is None else root
        self._pending_names: list[_NameChange] = []

    # -- looking up paths

    def find(self, path: str) -> Inode | Directory | None:
        """Return the file or directory at a path; None if there is none."""
        node: Inode | Directory | None = self.root
        for name in names_of(path):
            if not isinstance(node, Directory):
                return None
            node = node.current.get(name)
        return node

    def inode(self, path: str) -> Inode:
        """Return the file at a path. Raise FileNotFoundError if there is none."""
        node = self.find(path)
        if not isinstance(node, Inode):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return node

    def directory(self, path: str) -> Directory:
        """Return the directory at a path. Raise FileNotFoundError if there is none."""
        node = self.find(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        """Return the directory of a path, and the name in it."""
        *parents, name = names_of(path)
        return self.directory("/".join(parents)), name

    # -- changes of names

    def change_names(self, *assignments: tuple[Directory, str, Inode | Directory | None]) -> None:
        """Change names together; None removes a name. The change is not durable yet."""
        for directory, name, node in assignments:
            if node is None:
                directory.current.pop(name, None)
            else:
                directory.current[name] = node
        self._pending_names.append(_NameChange(assignments))

    def sync_names(self, directory: Directory) -> None:
        """Make the changes of names in a directory durable."""
        waiting = []
        for change in self._pending_names:
            if any(touched is directory for touched, _, _ in change.assignments):
                _assign(change)
            else:
                waiting.append(change)
        self._pending_names = waiting

    def sync_all(self) -> None:
        """Make everything durable."""
        for change in self._pending_names:
            _assign(change)
        self._pending_names.clear()
        for inode in _inodes(self.root):
            inode.sync()

    # -- power failures

    def after_crash(self, survival: Survival | int) -> CrashTree:
        """Return the durable tree after a crash; an int is the seed of a random choice of what survives."""
        chooser = random.Random(survival) if isinstance(survival, int) else None
        names = self._surviving_names(survival, chooser)
        last_write = max(
            (change.sequence for inode in self._all_inodes() for change in inode.pending), default=-1
        )
        entries: dict[int, dict[str, Inode | Directory]] = {}
        for change in names:
            for directory, name, node in change.assignments:
                copy = entries.setdefault(id(directory), dict(directory.durable))
                if node is None:
                    copy.pop(name, None)
                else:
                    copy[name] = node
        contents: dict[int, Inode] = {}

        def survivor(node: Inode | Directory) -> Inode | Directory:
            if isinstance(node, Inode):
                if id(node) not in contents:
                    image = surviving_image(node.synced, node.pending, survival, chooser, last_write)
                    contents[id(node)] = Inode(image, bytearray(image))
                return contents[id(node)]
            listing = entries.get(id(node), node.durable)
            children = {name: survivor(child) for name, child in sorted(listing.items())}
            return Directory(dict(children), dict(children))

        root = survivor(self.root)
        assert isinstance(root, Directory)
        return CrashTree(root)

    def _surviving_names(self, survival: Survival | int, chooser: random.Random | None) -> list[_NameChange]:
        if chooser is not None:
            return _in_order(self._pending_names, random_part(self._pending_names, chooser))
        if survival in (Survival.LOSE_UNSYNCED, Survival.KEEP_DATA_ONLY):
            return []
        return self._pending_names

    def _all_inodes(self) -> list[Inode]:
        inodes = {id(inode): inode for inode in _inodes(self.root)}
        for change in self._pending_names:
            for _, _, node in change.assignments:
                for inode in [node] if isinstance(node, Inode) else _inodes(node) if node else []:
                    inodes[id(inode)] = inode
        return list(inodes.values())

    def digest(self) -> bytes:
        """Return a digest of the names and contents of all files: equal trees have equal digests."""
        digest = blake2b()
        _add_to_digest(self.root, digest)
        return digest.digest()


@lru_cache(maxsize=4096)
def names_of(path: str) -> tuple[str, ...]:
    """Return the names in a path, without empty ones and '.'."""
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _assign(change: _NameChange) -> None:
    for directory, name, node in change.assignments:
        if node is None:
            directory.durable.pop(name, None)
        else:
            directory.durable[name] = node


def _in_order(changes: list[_NameChange], survivors: list[_NameChange]) -> list[_NameChange]:
    """Return those of `survivors` before which no change of the same directories is lost."""
    surviving = {id(change) for change in survivors}
    with_losses: set[int] = set()
    kept = []
    for change in changes:
        directories = {id(directory) for directory, _, _ in change.assignments}
        if id(change) in surviving and directories.isdisjoint(with_losses):
            kept.append(change)
        else:
            with_losses |= directories
    return kept


def _add_to_digest(directory: Directory, digest: blake2b) -> None:
    for name, node in sorted(directory.current.items()):
        content = b"" if isinstance(node, Directory) else bytes(node.current)
        digest.update(f"{name}/{type(node).__name__}/{len(content)}/".encode() + content)
        if isinstance(node, Directory):
            _add_to_digest(node, digest)
            digest.update(b"..")


def _inodes(directory: Directory) -> Iterator[Inode]:
    for node in [*directory.current.values(), *directory.durable.values()]:
        if isinstance(node, Directory):
            yield from _inodes(node)
        else:
            yield node
