"""An object store on any file system of fsspec (file, memory, HDFS, GCS, Azure ...), by its URL.

How a put is made atomic depends on the file system:

    file, HDFS, SFTP, SMB    written to `<root>/.uploads/<random>`, then renamed
    all others               passed to the file system in one call; object stores show an object only when it
                             is complete. A source is first written to a local temporary file.

Limits of fsspec: timeouts and retries are those of the file system (`fsspec.options`). Directories are not
fsynced (use the local directory store for that). HDFS does not rename over an existing file, so a put that
replaces one deletes it first. Empty directories are removed for file and memory only, because `rmdir` of some
others also deletes the contents. A stream of file and memory reads the object as it was when opened. From
other file systems, the length is requested first, then pieces: if an object is replaced meanwhile, a reader
may see parts of both.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from typing import IO, Any, Final

import fsspec

from tidelog.base.config_definition import (
    HIDDEN_VALUE,
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
from tidelog.remote.ports.storage_manager import RemoteStorageError

_RENAMING: Final = frozenset({"file", "local", "hdfs", "arrow_hdfs", "sftp", "ssh", "smb"})
_LOCAL: Final = frozenset({"file", "local"})
_MEMORY: Final = frozenset({"memory"})
_CAREFUL_RMDIR: Final = _LOCAL | _MEMORY
_ATTEMPTS_MAX: Final = 100
_READ_BYTES: Final = 4 * 1024 * 1024

CONFIGS: Final = table(
    [
        ConfigDefinition(
            key="fsspec.url",
            kind=ConfigKind.STRING,
            non_empty=True,
            required=True,
            documentation="The location of the objects, as a URL that fsspec supports, such as gs://bucket/tier.",
        ),
        ConfigDefinition(
            key="fsspec.options",
            kind=ConfigKind.PASSWORD,
            default="{}",
            documentation="The options of the file system, as a JSON object. They can contain secrets.",
        ),
    ]
)


class FsspecStore:
    """Objects as files below the path of a URL.

    I/O: blocking calls of fsspec, from any thread. Errors: those of the port.
    """

    def __init__(
        self, url: str, options: Mapping[str, Any] | None = None, ports: StorePorts = SYSTEM_PORTS
    ) -> None:
        """Open the file system. Errors: those of fsspec for an invalid URL or options."""
        file_system, path = fsspec.core.url_to_fs(
            url, **{"use_listings_cache": False, "skip_instance_cache": True, **(options or {})}
        )
        self._file_system: Any = file_system
        self._randomness = ports.randomness
        self._root = str(path).rstrip("/")
        protocol = self._file_system.protocol
        self._protocols = frozenset([protocol] if isinstance(protocol, str) else protocol)
        self._renames = bool(self._protocols & _RENAMING)
        self.name = f"fsspec {sorted(self._protocols)[0]}:{self._root}"

    @classmethod
    def from_config(cls, values: Mapping[str, str], ports: StorePorts = SYSTEM_PORTS) -> FsspecStore:
        """Return the store that `values` configure. Errors: ConfigError in one line."""
        reject_unknown_keys(CONFIGS, values)
        parsed = parse_values(CONFIGS, values)
        url = str(parsed["fsspec.url"])
        try:
            options = json.loads(str(parsed["fsspec.options"]))
        except ValueError:
            options = None
        if not isinstance(options, dict):
            raise ConfigError(
                "fsspec.options", HIDDEN_VALUE, 'allowed is a JSON object, such as {"token": "anon"}'
            )
        try:
            return cls(url, options, ports)
        except Exception as error:
            allowed = f"allowed is a URL of an installed file system: {error}"
            raise ConfigError("fsspec.url", url, " ".join(allowed.split())) from error

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """Put an object, as specified by ObjectStore."""
        path = self._path(key)
        parts = Parts(self.name, key, content, size)
        with put_errors(self.name, key, Exception):
            if self._renames:
                self._put_and_rename(path, parts)
            else:
                self._put_at_once(path, content, parts)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ExactStream:
        """Return a range of an object, as specified by ObjectStore."""
        check_range(start, end)
        path = self._path(key)
        if self._protocols & (_LOCAL | _MEMORY):
            return self._opened(key, path, start, end)
        length = range_length(self.name, key, self.size(key), start, end)
        return _FsspecStream(self, key, path, start or 0, length)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, as specified by ObjectStore."""
        first_failure = FirstFailure(self.name, "delete")
        for key in keys:
            with first_failure.of(key):
                path = self._path(key)
                with suppress(FileNotFoundError):
                    self._file_system.rm_file(path)
                self._remove_empty_parents(path)
        first_failure.raise_if_any()

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects, as specified by ObjectStore; the whole listing is fetched at once."""
        directory = prefix.rpartition("/")[0]
        if directory:
            check_path_key(self.name, directory)
        try:
            files = self._file_system.find(f"{self._root}/{directory}".rstrip("/") or "/", detail=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise failure(self.name, "list", prefix, error) from error
        for path, info in files.items():
            key = self._file_system._strip_protocol(path)[len(self._root) + 1 :]
            is_listed = key.startswith(prefix) and key > start_after and not key.startswith(f"{UPLOADS}/")
            if info["type"] == "file" and is_listed:
                yield ObjectInfo(key, int(info["size"]))

    def size(self, key: str) -> int:
        """Return the size of the object in bytes."""
        try:
            info = self._file_system.info(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            raise missing(self.name, key) from None
        except RemoteStorageError:
            raise
        except Exception as error:
            raise failure(self.name, "get the size of", key, error) from error
        if info["type"] != "file":
            raise missing(self.name, key)
        return int(info["size"])

    def close(self) -> None:
        """Do nothing: no resource is open between calls."""

    def read_piece(self, key: str, path: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end` (exclusive); fewer at the end of the object."""
        try:
            return bytes(self._file_system.cat_file(path, start=start, end=end))
        except FileNotFoundError:
            raise missing(self.name, key) from None
        except Exception as error:
            raise failure(self.name, "read", key, error) from error

    def _opened(self, key: str, path: str, start: int | None, end: int | None) -> ExactStream:
        """Return a stream of the object as it is now, even if it is replaced or deleted later."""
        try:
            if self._protocols & _MEMORY:
                # One call returns a range of one version; the whole object may be a thousand times as long.
                stop = None if end is None else end + 1
                content = bytes(self._file_system.cat_file(path, start=start or 0, end=stop))
                if not content:
                    range_length(self.name, key, self.size(key), start, end)
                return _OpenedStream(self.name, key, BytesIO(content), len(content))
            file = self._file_system.open(path, "rb")
        except RemoteStorageError:
            raise
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise missing(self.name, key) from None
        except Exception as error:
            raise failure(self.name, "open", key, error) from error
        try:
            length = range_length(self.name, key, file.size, start, end)
            file.seek(start or 0)
        except BaseException:
            file.close()
            raise
        return _OpenedStream(self.name, key, file, length)

    def _path(self, key: str) -> str:
        check_file_key(self.name, key)
        return f"{self._root}/{key}"

    def _put_and_rename(self, path: str, parts: Parts) -> None:
        file_system = self._file_system
        upload = f"{self._root}/{UPLOADS}/{new_uuid(self._randomness).hex}"
        file_system.makedirs(f"{self._root}/{UPLOADS}", exist_ok=True)
        try:
            with file_system.open(upload, "wb") as file:
                _copy(parts, file)
            self._place(upload, path)
        except BaseException:
            with suppress(Exception):
                file_system.rm_file(upload)
            raise

    def _place(self, upload: str, path: str) -> None:
        """Rename the upload; retry if a deletion removes the directory between the two calls."""
        file_system = self._file_system
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            try:
                file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
                if not self._protocols & _LOCAL and file_system.exists(path):
                    file_system.rm_file(path)
                file_system.mv(upload, path)
                return
            except (FileNotFoundError, FileExistsError):
                if attempt == _ATTEMPTS_MAX or not file_system.exists(upload):
                    raise

    def _put_at_once(self, path: str, content: Content, parts: Parts) -> None:
        with suppress(Exception):
            self._file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
        if isinstance(content, (bytes, bytearray, memoryview)):
            self._file_system.pipe_file(path, bytes(content))
            return
        with tempfile.NamedTemporaryFile(prefix="tidelog-put-") as spool:
            _copy(parts, spool)
            self._file_system.put_file(spool.name, path)

    def _remove_empty_parents(self, path: str) -> None:
        if not self._protocols & _CAREFUL_RMDIR:
            return
        directory = path.rpartition("/")[0]
        while len(directory) > len(self._root):
            try:
                self._file_system.rmdir(directory)
            except FileNotFoundError:
                pass
            except OSError:
                return
            directory = directory.rpartition("/")[0]


class _OpenedStream(ExactStream):
    """The rest of an open file."""

    def __init__(self, store: str, key: str, file: IO[bytes], length: int) -> None:
        super().__init__(store, key, length)
        self._file = file

    def _next(self, size: int) -> bytes:
        if self._file.closed:
            raise failure(self._store, "read", self._key, "the stream is closed")
        try:
            return self._file.read(size)
        except OSError as error:
            raise failure(self._store, "read", self._key, error) from error

    def close(self) -> None:
        self._file.close()


class _FsspecStream(ExactStream):
    """A range of a file, fetched in pieces."""

    def __init__(self, store: FsspecStore, key: str, path: str, position: int, length: int) -> None:
        super().__init__(store.name, key, length)
        self._files: FsspecStore | None = store
        self._path = path
        self._position = position
        self._end = position + length
        self._piece = memoryview(b"")

    def _next(self, size: int) -> bytes:
        if self._files is None:
            raise failure(self._store, "read", self._key, "the stream is closed")
        if not self._piece:
            end = min(self._end, self._position + _READ_BYTES)
            self._piece = memoryview(self._files.read_piece(self._key, self._path, self._position, end))
            self._position += len(self._piece)
        part, self._piece = self._piece[:size], self._piece[size:]
        return bytes(part)

    def close(self) -> None:
        self._files = None
        self._piece = memoryview(b"")


def _copy(parts: Parts, file: IO[bytes]) -> None:
    """Write all `parts` to `file`; fsync it if it is a local file."""
    while part := parts.next_part(PIECE_BYTES_MAX):
        file.write(part)
    file.flush()
    with suppress(AttributeError, OSError):
        os.fsync(file.fileno())
