"""Keeps files readable while slices of them wait to be sent, with one descriptor for each file.

A segment may be closed while a slow reader is still sent a part of it. A duplicate of its descriptor keeps it
readable; all connections that send from the same file share it.

Bounds: a descriptor for each file of which a slice waits; a connection has one response waiting.
"""

from __future__ import annotations

import os

from tidelog.storage.disk.files import File


class KeptFiles:
    """Duplicates of descriptors with reference counts."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[File, tuple[int, int]] = {}
        """The descriptor and its reference count, by file."""

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, file: File) -> int:
        """Return a descriptor of `file` that stays open until as many calls of `release`. Errors: OSError."""
        found = self._kept.get(file)
        descriptor, count = (os.dup(file.fileno()), 0) if found is None else found
        self._kept[file] = descriptor, count + 1
        return descriptor

    def release(self, file: File) -> None:
        """Release one reference; the last one closes the descriptor."""
        descriptor, count = self._kept[file]
        if count > 1:
            self._kept[file] = descriptor, count - 1
        else:
            del self._kept[file]
            os.close(descriptor)
