"""A store whose errors do not show the prefix of keys (key.prefix.mask)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from tidelog.remote.objects.stores.port import Content, ObjectInfo, ObjectStore
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteStorageError

MASK = "<prefix>/"


class _Mask:
    """Replaces the prefix in errors."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @contextmanager
    def mask_errors(self) -> Iterator[None]:
        """Mask the errors of the block, and drop their causes, which would show the key."""
        try:
            yield
        except RemoteStorageError as error:
            self._raise(error)

    def _raise(self, error: RemoteStorageError) -> NoReturn:
        raise type(error)(str(error).replace(self._prefix, MASK)) from None


class MaskedStore:
    """A store whose errors show MASK instead of `prefix`, which is not empty."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._mask = _Mask(prefix)

    def put(self, key: str, content: Content, size: int | None = None) -> bool | None:
        """Put an object, as specified by ObjectStore."""
        with self._mask.mask_errors():
            return self._store.put(key, content, size)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """Return a range of an object, as specified by ObjectStore."""
        with self._mask.mask_errors():
            return _MaskedStream(self._store.get(key, start, end), self._mask)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, as specified by ObjectStore."""
        with self._mask.mask_errors():
            self._store.delete(keys)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects, as specified by ObjectStore."""
        with self._mask.mask_errors():
            yield from self._store.list(prefix, start_after)

    def size(self, key: str) -> int:
        """Return the size of an object, as specified by ObjectStore."""
        with self._mask.mask_errors():
            return self._store.size(key)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class _MaskedStream:
    def __init__(self, stream: ReadableStream, mask: _Mask) -> None:
        self._stream = stream
        self._mask = mask

    def read(self, size: int = -1, /) -> bytes:
        with self._mask.mask_errors():
            return self._stream.read(size)

    def close(self) -> None:
        self._stream.close()
