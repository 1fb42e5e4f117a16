"""Keeps files readable while slices of them wait to be sent, with one descriptor for each file.

A segment may be closed while a part of it is still being sent to a slow reader. A duplicate of its descriptor
keeps it readable. All connections that send from the same file share the duplicate.

Bounds: one descriptor for each file with an unsent slice; each connection has at most one unsent response.
"""

from __future__ import annotations

import os

from tidelog.storage.disk.files import File


class SharedDescriptors:
    """Duplicate file descriptors with reference counts."""

    __slots__ = ("_descriptors",)

    def __init__(self) -> None:
        self._descriptors: dict[File, tuple[int, int]] = {}
        """The descriptor and its reference count, by file."""

    def __len__(self) -> int:
        return len(self._descriptors)

    def acquire(self, file: File) -> int:
        """Return a descriptor of `file`, which stays open until the matching `release`. Errors: OSError."""
        entry = self._descriptors.get(file)
        descriptor, count = (os.dup(file.fileno()), 0) if entry is None else entry
        self._descriptors[file] = descriptor, count + 1
        return descriptor

    def release(self, file: File) -> None:
        """Release one reference; the last one closes the descriptor."""
        descriptor, count = self._descriptors[file]
        if count > 1:
            self._descriptors[file] = descriptor, count - 1
        else:
            del self._descriptors[file]
            os.close(descriptor)
