"""Finds out whether the files of key stores and trust stores have changed."""

from __future__ import annotations

import os
from typing import NamedTuple

from tidelog.security.tls.settings import TlsSettings


class FileVersion(NamedTuple):
    """What changes when a file is written or replaced."""

    inode: int
    size_bytes: int
    modified_ns: int


def file_versions(settings: TlsSettings) -> tuple[FileVersion | None, ...]:
    """Return the versions of the files of the stores; None for a file that cannot be found. I/O: stat."""
    return tuple(map(_version, settings.files))


def _version(path: str) -> FileVersion | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileVersion(found.st_ino, found.st_size, found.st_mtime_ns)
