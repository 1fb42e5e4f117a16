"""Storage of cached chunks: in memory, or as files in a directory.

A file is written to `temp/`, then renamed into `cache/`. Files are not synced, because the cache is emptied
at the start, as in Aiven's plugin. Other files in the directory are not touched.
"""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple, Protocol

from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.layout.pieces import Buffer, Pieces

_log = logging.getLogger(__name__)


class ChunkKey(NamedTuple):
    """The key of a chunk: the key of its log object and its number."""

    object_key: str
    number: int

    @property
    def file_name(self) -> str:
        """The chunk's file name, from the last part of the object key, which contains the segment id."""
        return f"{self.object_key.rpartition('/')[2]}-{self.number}"


class Handle(Protocol):
    """A cached chunk."""

    def slice(self, start: int, end: int) -> Buffer | None:
        """Return the bytes from `start` to `end` (exclusive); None if they are lost."""
        ...

    def drop(self) -> None:
        """Remove the chunk; slices returned earlier stay valid."""
        ...


class ChunkStorage(Protocol):
    """Stores chunks."""

    def store(self, key: ChunkKey, chunk: Pieces) -> Handle | None:
        """Return a handle to `chunk`; None if it cannot be stored, which does not fail the read."""
        ...


class MemoryHandle:
    """A chunk in memory."""

    __slots__ = ("_chunk",)

    def __init__(self, chunk: Pieces) -> None:
        self._chunk = chunk

    def slice(self, start: int, end: int) -> Buffer | None:
        """Return the bytes, as a view if they are in one piece."""
        return self._chunk.slice(start, end)

    def drop(self) -> None:
        """Do nothing: returned views keep the bytes alive."""


class MemoryStorage:
    """Chunks in memory, as they were fetched."""

    def store(self, key: ChunkKey, chunk: Pieces) -> Handle | None:
        """Return a handle to `chunk`."""
        return MemoryHandle(chunk)


class FileHandle:
    """A chunk in its own file."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def slice(self, start: int, end: int) -> Buffer | None:
        """Return the bytes from the file; None if the file is missing, too short or unreadable."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(descriptor, end - start, start)
            finally:
                os.close(descriptor)
        except OSError:
            return None
        return data if len(data) == end - start else None

    def drop(self) -> None:
        """Remove the file."""
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("Cannot remove cached chunk %s: %s", self._path, error)


class DiskStorage:
    """Chunks as files below `directory`, which must exist. Errors: ConfigError if it cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._cache, self._temp = directory / "cache", directory / "temp"
        if not directory.is_dir() or not os.access(directory, os.W_OK):
            raise ConfigError(
                "fetch.chunk.cache.path", directory, "allowed is an existing, writable directory"
            )
        try:
            for part in (self._cache, self._temp):
                if part.exists():
                    shutil.rmtree(part)
                part.mkdir()
        except OSError as error:
            raise ConfigError(
                "fetch.chunk.cache.path", directory, f"cannot empty the directory: {error}"
            ) from error
        self._is_failing = False
        self._numbers = count()

    def store(self, key: ChunkKey, chunk: Pieces) -> Handle | None:
        """Return a handle to the file of `chunk`; None if the disk is full or broken."""
        # Each file has a new name, so that removing an evicted file never removes its successor.
        name = f"{key.file_name}-{next(self._numbers)}"
        temp, path = self._temp / name, self._cache / name
        try:
            with open(temp, "wb", buffering=0) as file:
                for part in chunk.parts:
                    view = memoryview(part)
                    while view:
                        view = view[file.write(view) :]
            os.replace(temp, path)
        except OSError as error:
            self._log_failure(error)
            with suppress(OSError):
                temp.unlink()
            return None
        self._is_failing = False
        return FileHandle(str(path))

    def _log_failure(self, error: OSError) -> None:
        if not self._is_failing:
            _log.warning(
                "Cannot cache chunks in %s; reading continues without the cache: %s", self._cache, error
            )
        self._is_failing = True
