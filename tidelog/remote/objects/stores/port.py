"""The port of an object store: whole values by key, written once, read in ranges.

Every call blocks and may come from any thread, several at a time. A put is atomic: readers see the object
before or after it, never a part. Keys are texts whose parts are separated by '/'.

Errors: RemoteStorageError, one line with the store, the key and the cause; RemoteResourceNotFound if no
object has the key; InvalidRange. An adapter over a network fails after a bounded time.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeAlias

from tidelog.base.clock import SYSTEM_CLOCK, Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import SYSTEM_RANDOMNESS, Randomness
from tidelog.base.threads import SYSTEM_THREADS, Threads
from tidelog.remote.ports.storage_manager import (
    ReadableStream,
    RemoteResourceNotFound,
    RemoteStorageError,
    StoreUnavailable,
)

KEY_BYTES_MAX: Final = 1024
"""The maximum size of a key in UTF-8, as in S3."""

UPLOADS: Final = ".uploads"
"""The directory of unfinished puts in a store that consists of files; no key begins with it."""

_OUTAGE_ERRORS: Final = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETUNREACH,
        errno.ENOSPC,
        errno.ENOTCONN,
        errno.EROFS,
        errno.ESTALE,
    }
)

Content: TypeAlias = "bytes | bytearray | memoryview | Source"


class RequestKind(Enum):
    """The kinds of requests, as stores charge for them; a PUT may be a part of an upload."""

    GET = "GET"
    PUT = "PUT"
    HEAD = "HEAD"
    LIST = "LIST"
    DELETE = "DELETE"


OpenFile: TypeAlias = Callable[[str], BinaryIO]
"""Opens a file to read it from its start to its end."""


def _open_file(path: str) -> BinaryIO:
    return open(path, "rb")


@dataclass(frozen=True, slots=True)
class StorePorts:
    """The clock, the randomness, the threads and the files of a store, and the observer of its requests."""

    clock: Clock = SYSTEM_CLOCK
    randomness: Randomness = SYSTEM_RANDOMNESS
    on_request: Callable[[RequestKind], None] | None = None
    """Called for each HTTP request by stores of S3."""
    threads: Threads = SYSTEM_THREADS
    open_file: OpenFile = _open_file
    """Opens the local files of a segment."""


SYSTEM_PORTS: Final = StorePorts()


class Source(Protocol):
    """The source of the bytes of a put: a file opened for reading, or an object with its `read` method."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; empty at the end."""
        ...


class ObjectInfo(NamedTuple):
    """An object in a listing."""

    key: str
    size_bytes: int


class InvalidRange(RemoteStorageError):
    """The range begins after the end of the object."""


class ObjectStore(Protocol):
    """Objects by key."""

    def put(self, key: str, content: Content, size: int | None = None) -> bool | None:
        """Write an object, which replaces one with the same key; it is durable on return.

        Return True if the store has confirmed a checksum of all bytes, so that they need no verification.

        `size` is the exact number of bytes, None if it is unknown. If a source has another number of bytes,
        nothing is written and RemoteStorageError is raised. Errors of `content.read` are raised unchanged.
        """
        ...

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return the bytes from `start` to `end`, both inclusive; None means the first or the last byte.

        An end after the last byte means the last byte. `read(n)` returns n bytes unless the range ends: a
        range is never shortened silently. Errors: InvalidRange; ValueError for positions that are not a
        range.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects; a missing object is not an error.

        The failure of one key does not prevent the deletion of the others; an unavailable store does.
        """
        ...

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Return the objects whose keys begin with `prefix` and are after `start_after`, in any order.

        Pages are fetched during the iteration.
        """
        ...

    def size(self, key: str) -> int:
        """Return the size of the object in bytes."""
        ...

    def close(self) -> None:
        """Release connections; no call follows."""
        ...


OpenStore: TypeAlias = Callable[[str, Mapping[str, str], StorePorts], ObjectStore]
"""Returns the store with a class name and its settings (keys without `storage.`). Errors: ConfigError."""


def check_key(store: str, key: str) -> None:
    """Raise RemoteStorageError unless every store accepts `key`: 1 to 1,024 bytes, all of them printable."""
    if not key or not key.isprintable() or len(key.encode("utf-8", "replace")) > KEY_BYTES_MAX:
        raise failure(store, "use", key, f"a key has 1 to {KEY_BYTES_MAX} bytes, all of them printable")


def check_path_key(store: str, key: str) -> None:
    """Raise RemoteStorageError unless `key` is a path below a root, without empty parts, '.' and '..'."""
    check_key(store, key)
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise failure(store, "use", key, "the key is not a path below the root of the store")


def check_file_key(store: str, key: str) -> None:
    """Raise RemoteStorageError unless `key` can be the path of an object in a store of files."""
    check_path_key(store, key)
    if key.split("/", 1)[0] == UPLOADS:
        raise failure(store, "use", key, f"the directory {UPLOADS} is reserved for uploads")


def check_range(start: int | None, end: int | None) -> None:
    """Raise ValueError unless the positions are a range: not negative, and `start` not after `end`."""
    if (start or 0) < 0 or (end is not None and end < (start or 0)):
        raise ValueError(f"{start} to {end} is not a range of bytes")


def range_length(store: str, key: str, size: int, start: int | None, end: int | None) -> int:
    """Return the number of bytes that a checked range has in an object of `size` bytes.

    Errors: InvalidRange if the range begins after the end of the object.
    """
    first = start or 0
    if first >= size and not (first == 0 and end is None):
        raise InvalidRange(
            one_line(f"{store}: position {first} of {key!r} is beyond its end; it has {size} bytes")
        )
    return (size if end is None else min(size, end + 1)) - first


def failure(
    store: str, action: str, key: str, cause: object, *, is_outage: bool = False
) -> RemoteStorageError:
    """Return the error of a failed operation of a store, as one line.

    It is StoreUnavailable with `is_outage`, and if the error of the operating system affects every object.
    """
    text = f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else str(cause)
    is_outage = is_outage or (isinstance(cause, OSError) and _is_outage(cause))
    kind = StoreUnavailable if is_outage else RemoteStorageError
    return kind(one_line(f"{store}: cannot {action} {key!r}: {text}"))


def _is_outage(error: OSError) -> bool:
    return isinstance(error, (ConnectionError, TimeoutError)) or error.errno in _OUTAGE_ERRORS


class FirstFailure:
    """Runs an operation for several keys, continues after failures, and raises the first one at the end."""

    def __init__(self, store: str, action: str) -> None:
        self._store = store
        self._action = action
        self._error: RemoteStorageError | None = None

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Record an error of the block as an error of `key`, unless an error was recorded before."""
        try:
            yield
        except RemoteStorageError as error:
            self._error = self._error or error
        except Exception as error:
            self._error = self._error or failure(self._store, self._action, key, error)

    def raise_if_any(self) -> None:
        """Raise the first recorded error, if any."""
        if self._error is not None:
            raise self._error


def missing(store: str, key: str) -> RemoteResourceNotFound:
    """Return the error for a key without an object."""
    return RemoteResourceNotFound(one_line(f"{store}: no object {key!r}"))


def one_line(text: str) -> str:
    """Return `text` with each run of whitespace replaced by one space."""
    return " ".join(text.split())
