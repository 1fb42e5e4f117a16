"""The port to a place that keeps objects: whole values under keys, written once, read in ranges.

Every call blocks and may come from any thread, several at once. A put is all or nothing: readers see the
object before or after it, never a part. Keys are texts with '/' between their parts.

Errors: RemoteStorageError, one line that names store, key and cause; RemoteResourceNotFound when there is no
object of that key; InvalidRange. An adapter over a network gives up after a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.remote.ports.storage_manager import ReadableStream, RemoteResourceNotFound, RemoteStorageError

KEY_BYTES_MAX: Final = 1024
"""The longest key in UTF-8, as in S3."""

Content: TypeAlias = "bytes | bytearray | memoryview | Source"


class Source(Protocol):
    """Where the bytes of a put come from: a file opened for reading, or anything that reads as one."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; empty at the end."""
        ...


class ObjectInfo(NamedTuple):
    """An object as a listing shows it."""

    key: str
    size_bytes: int


class InvalidRange(RemoteStorageError):
    """A range that begins behind the end of the object."""


class ObjectStore(Protocol):
    """Objects under keys."""

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """Write an object, replacing one of the same key; it is durable when this returns.

        `size` is the exact number of bytes, None when that is not known before; a source with another number
        of bytes is a RemoteStorageError and nothing is written. What `content.read` raises passes through.
        """
        ...

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """The bytes from `start` to `end`, both inclusive; None is the first and the last byte.

        An end behind the last byte counts as the last byte. `read(n)` gives n bytes unless the range ends:
        a range is never cut short silently. Errors: InvalidRange; ValueError for positions that are no range.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects; what is gone already is no error.

        A key that fails does not keep others from being deleted; a store that does not answer does.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects whose keys begin with `prefix`, in any order; pages are fetched while iterating."""
        ...

    def size(self, key: str) -> int:
        """Bytes of the object."""
        ...

    def close(self) -> None:
        """Give back connections; nothing is called afterwards."""
        ...


def check_key(store: str, key: str) -> None:
    """RemoteStorageError unless every store could hold `key`: 1 to 1,024 bytes, all of them printable."""
    if not key or not key.isprintable() or len(key.encode("utf-8", "replace")) > KEY_BYTES_MAX:
        raise failure(store, "use", key, f"a key has 1 to {KEY_BYTES_MAX} bytes, all of them printable")


def check_path_key(store: str, key: str) -> None:
    """RemoteStorageError unless `key` is a path below a root: no empty part, no '.', no '..'."""
    check_key(store, key)
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise failure(store, "use", key, "the key is no path below the root of the store")


def check_range(start: int | None, end: int | None) -> None:
    """ValueError unless the positions are a range: nothing negative, `start` not behind `end`."""
    if (start or 0) < 0 or (end is not None and end < (start or 0)):
        raise ValueError(f"{start} to {end} is no range of bytes")


def range_length(store: str, key: str, size: int, start: int | None, end: int | None) -> int:
    """How many bytes of an object of `size` bytes a checked range has.

    Errors: InvalidRange when it begins behind them.
    """
    first = start or 0
    if first >= size and not (first == 0 and end is None):
        raise InvalidRange(one_line(f"{store}: byte {first} of {key!r} is behind its end, it has {size}"))
    return (size if end is None else min(size, end + 1)) - first


def failure(store: str, action: str, key: str, cause: object) -> RemoteStorageError:
    """The error of a store that did not do what it was asked, as one line."""
    text = f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else str(cause)
    return RemoteStorageError(one_line(f"{store}: could not {action} {key!r}: {text}"))


class FirstFailure:
    """Work on several keys that goes on after one failed, and fails in the end: see `ObjectStore.delete`."""

    def __init__(self, store: str, action: str) -> None:
        self._store = store
        self._action = action
        self._error: RemoteStorageError | None = None

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Keep what fails within, as an error of `key`, unless another failed before."""
        try:
            yield
        except RemoteStorageError as error:
            self._error = self._error or error
        except Exception as error:
            self._error = self._error or failure(self._store, self._action, key, error)

    def raise_it(self) -> None:
        """Raise the first error, if there was any."""
        if self._error is not None:
            raise self._error


def missing(store: str, key: str) -> RemoteResourceNotFound:
    """The error for a key under which there is nothing."""
    return RemoteResourceNotFound(one_line(f"{store}: there is no object {key!r}"))


def one_line(text: str) -> str:
    """`text` with everything that breaks a line made a blank."""
    return " ".join(text.split())
