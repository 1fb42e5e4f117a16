"""An object store in a local or mounted directory: the default of embedded clusters.

    <root>/<key>               an object; the parts of a key are directories
    <root>/.uploads/<random>   an unfinished put; renamed when it is complete and synced

Several processes may use one root at the same time. A deletion removes empty directories; rmdir does not
remove others. A put whose directory is removed meanwhile creates it again.

Durability: a put returns after fsync of the file and of all its parent directories; a deletion after fsync of
the directory.
Source: the keys `root` and `overwrite.enabled` are those of Aiven's FileSystemStorage.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from tidelog.base.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigKind,
    parse_values,
    reject_unknown_keys,
    table,
)
from tidelog.base.randomness import new_uuid
from tidelog.remote.objects.stores.port import (
    SYSTEM_PORTS,
    UPLOADS,
    Content,
    FirstFailure,
    ObjectInfo,
    StorePorts,
    check_file_key,
    check_path_key,
    check_range,
    failure,
    missing,
    range_length,
)
from tidelog.remote.objects.stores.streams import PIECE_BYTES_MAX, ExactStream, Parts, put_errors

_ATTEMPTS_MAX: Final = 100
_STALE_UPLOAD_S: Final = 24 * 3600

CONFIGS: Final = table(
    [
        ConfigDefinition(
            key="root",
            kind=ConfigKind.STRING,
            non_empty=True,
            required=True,
            documentation="The directory of the objects. It must exist and be writable.",
        ),
        ConfigDefinition(
            key="overwrite.enabled",
            kind=ConfigKind.BOOLEAN,
            default=True,
            documentation="Whether an upload can replace an existing object.",
        ),
    ]
)


class LocalDirectoryStore:
    """Objects as files below `root`.

    I/O: blocking calls of the file system, from any thread. Errors: those of the port.
    """

    def __init__(self, root: str, *, overwrite: bool = True, ports: StorePorts = SYSTEM_PORTS) -> None:
        """Open `root`, which must be a writable directory. Errors: OSError."""
        self.name = f"directory {root}"
        self._root = os.path.realpath(root)
        self._uploads = os.path.join(self._root, UPLOADS)
        self._overwrite = overwrite
        self._ports = ports
        os.makedirs(self._uploads, exist_ok=True)
        self._remove_stale_uploads()

    @classmethod
    def from_config(cls, values: Mapping[str, str], ports: StorePorts = SYSTEM_PORTS) -> LocalDirectoryStore:
        """Return the store that `values` configure. Errors: ConfigError in one line."""
        reject_unknown_keys(CONFIGS, values)
        parsed = parse_values(CONFIGS, values)
        root = str(parsed["root"])
        if not os.path.isdir(root) or not os.access(root, os.W_OK | os.X_OK):
            raise ConfigError("root", root, "allowed is an existing, writable directory")
        return cls(root, overwrite=parsed["overwrite.enabled"] is True, ports=ports)

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """Put an object, as specified by ObjectStore; without `overwrite`, an existing object is an error."""
        path = self._path(key)
        parts = Parts(self.name, key, content, size)
        upload = os.path.join(self._uploads, new_uuid(self._ports.randomness).hex)
        try:
            with put_errors(self.name, key, OSError):
                self._write(upload, parts)
                self._place(upload, path)
        finally:
            with suppress(OSError):
                os.unlink(upload)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ExactStream:
        """Return a range of an object, as specified by ObjectStore.

        The stream reads the object as it was when opened, even if it is replaced or deleted later.
        """
        check_range(start, end)
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise missing(self.name, key) from None
        except OSError as error:
            raise failure(self.name, "open", key, error) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise missing(self.name, key)
            length = range_length(self.name, key, status.st_size, start, end)
        except BaseException:
            os.close(descriptor)
            raise
        return _FileStream(self.name, key, descriptor, start or 0, length)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, as specified by ObjectStore."""
        directories: dict[str, str] = {}
        first_failure = FirstFailure(self.name, "delete")
        for key in keys:
            with first_failure.of(key):
                path = self._path(key)
                with suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(path)
                    directories.setdefault(os.path.dirname(path), key)
        for directory, key in directories.items():
            with first_failure.of(key):
                self._remove_empty(directory)
        first_failure.raise_if_any()

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects, as specified by ObjectStore; concurrent changes may or may not be included."""
        directory = prefix.rpartition("/")[0]
        if directory:
            check_path_key(self.name, directory)
        try:
            for info in self._walk(directory, prefix):
                if info.key > start_after:
                    yield info
        except OSError as error:
            raise failure(self.name, "list", prefix, error) from error

    def size(self, key: str) -> int:
        """Return the size of the object in bytes."""
        try:
            status = os.stat(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            raise missing(self.name, key) from None
        except OSError as error:
            raise failure(self.name, "get the size of", key, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise missing(self.name, key)
        return status.st_size

    def close(self) -> None:
        """Do nothing: no resource is open between calls."""

    def _path(self, key: str) -> str:
        check_file_key(self.name, key)
        return os.path.join(self._root, key)

    def _write(self, upload: str, parts: Parts) -> None:
        with open(upload, "xb") as file:
            while part := parts.next_part(PIECE_BYTES_MAX):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())

    def _place(self, upload: str, path: str) -> None:
        """Rename the complete upload, and make its name durable."""
        directory = os.path.dirname(path)
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            try:
                _make_directory(directory)
                if self._overwrite:
                    os.replace(upload, path)
                else:
                    os.link(upload, path)
                break
            except FileNotFoundError:
                # A deletion removed the directory between the two calls.
                if attempt == _ATTEMPTS_MAX:
                    raise
        while True:
            with suppress(FileNotFoundError):  # the object and its directory were deleted meanwhile
                _sync_directory(directory)
            if directory == self._root:
                return
            directory = os.path.dirname(directory)

    def _remove_empty(self, directory: str) -> None:
        """Make deletions in `directory` durable, then remove it and its parents that are empty."""
        with suppress(FileNotFoundError):
            _sync_directory(directory)
        while directory != self._root:
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                pass
            except OSError:
                return
            directory = os.path.dirname(directory)

    def _walk(self, directory: str, prefix: str) -> Iterator[ObjectInfo]:
        try:
            entries = sorted(os.scandir(os.path.join(self._root, directory)), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            key = f"{directory}/{entry.name}" if directory else entry.name
            if key == UPLOADS:
                continue
            if entry.is_dir():
                if f"{key}/".startswith(prefix) or prefix.startswith(f"{key}/"):
                    yield from self._walk(key, prefix)
            elif key.startswith(prefix):
                with suppress(FileNotFoundError):
                    yield ObjectInfo(key, entry.stat().st_size)

    def _remove_stale_uploads(self) -> None:
        """Remove uploads that crashed processes left; recent ones may belong to another process."""
        oldest_s = self._ports.clock.wall_ms() / 1000 - _STALE_UPLOAD_S
        for entry in os.scandir(self._uploads):
            with suppress(OSError):
                if entry.stat().st_mtime < oldest_s:
                    os.unlink(entry.path)


class _FileStream(ExactStream):
    """A range of an open file."""

    piece_bytes_max = 4 * PIECE_BYTES_MAX

    def __init__(self, store: str, key: str, descriptor: int, position: int, length: int) -> None:
        super().__init__(store, key, length)
        self._descriptor: int | None = descriptor
        self._position = position

    def _next(self, size: int) -> bytes:
        if self._descriptor is None:
            raise failure(self._store, "read", self._key, "the stream is closed")
        try:
            piece = os.pread(self._descriptor, size, self._position)
        except OSError as error:
            raise failure(self._store, "read", self._key, error) from error
        self._position += len(piece)
        return piece

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def _make_directory(path: str) -> None:
    """Create a directory and its parents.

    Errors: FileNotFoundError if a deletion removes one of them meanwhile.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        # The path existed when makedirs tried to create it, but may be removed or re-created by now: one stat
        # decides. The caller retries unless it is a file.
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR(os.stat(path).st_mode):
                raise
        raise FileNotFoundError(path) from None


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
