"""Where cached chunks lie: in memory, or as files in a directory.

A file is written beside (`temp/`), then renamed into `cache/`; nothing is synced, since the cache is
emptied at start, as Aiven's is. What else lies in the directory is left alone.
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
    """A chunk by the key of its log object."""

    object_key: str
    number: int

    @property
    def file_name(self) -> str:
        """Its name in a directory: segments have ids of their own, so the last part of the key is enough."""
        return f"{self.object_key.rpartition('/')[2]}-{self.number}"


class Handle(Protocol):
    """A chunk that is kept."""

    def slice(self, start: int, end: int) -> Buffer | None:
        """The bytes from `start` to `end` (exclusive); None when they are lost."""
        ...

    def drop(self) -> None:
        """Keep it no longer; slices given out stay valid."""
        ...


class ChunkPlaces(Protocol):
    """Keeps chunks."""

    def keep(self, key: ChunkKey, chunk: Pieces) -> Handle | None:
        """A handle to `chunk`; None when it cannot be kept, which is no failure of the read."""
        ...


class MemoryHandle:
    """A chunk in memory."""

    __slots__ = ("_chunk",)

    def __init__(self, chunk: Pieces) -> None:
        self._chunk = chunk

    def slice(self, start: int, end: int) -> Buffer | None:
        """A view where the bytes are of one piece."""
        return self._chunk.slice(start, end)

    def drop(self) -> None:
        """Nothing to do: views that were given out keep the bytes alive."""


class MemoryPlaces:
    """Chunks as they came, in memory."""

    def keep(self, key: ChunkKey, chunk: Pieces) -> Handle | None:
        """Always kept."""
        return MemoryHandle(chunk)


class FileHandle:
    """A chunk in a file of its own."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def slice(self, start: int, end: int) -> Buffer | None:
        """What the file has there; None when the file is gone, short or cannot be read."""
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
            _log.warning("a cached chunk cannot be removed: %s", error)


class DiskPlaces:
    """Chunks as files below `directory`, which must be there. Errors: ConfigError when it cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._cache, self._temp = directory / "cache", directory / "temp"
        if not directory.is_dir() or not os.access(directory, os.W_OK):
            raise ConfigError(
                "fetch.chunk.cache.path", directory, "allowed is a directory that is there and can be written"
            )
        try:
            for part in (self._cache, self._temp):
                if part.exists():
                    shutil.rmtree(part)
                part.mkdir()
        except OSError as error:
            raise ConfigError("fetch.chunk.cache.path", directory, f"cannot be emptied: {error}") from error
        self._is_failing = False
        self._numbers = count()

    def keep(self, key: ChunkKey, chunk: Pieces) -> Handle | None:
        """None when the disk is full or broken."""
        # A name of its own each time: who removes an evicted file never hits its successor.
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
            self._note_failure(error)
            with suppress(OSError):
                temp.unlink()
            return None
        self._is_failing = False
        return FileHandle(str(path))

    def _note_failure(self, error: OSError) -> None:
        if not self._is_failing:
            _log.warning("chunks are not cached on disk for now: %s", error)
        self._is_failing = True
