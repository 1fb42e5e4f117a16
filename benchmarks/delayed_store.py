"""An object store that lets every GET wait as a distant one would."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from tidelog.remote.objects.stores.port import Content, ObjectInfo, ObjectStore
from tidelog.remote.ports.storage_manager import ReadableStream


class DelayedStore:
    """`store` whose `get` takes `delay_ms` longer until the first byte; everything else is as it was."""

    def __init__(self, store: ObjectStore, delay_ms: float) -> None:
        self._store = store
        self._delay_s = delay_ms / 1000

    def put(self, key: str, content: Content, size: int | None = None) -> None:
        """See the port."""
        self._store.put(key, content, size)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> ReadableStream:
        """See the port, after the delay."""
        time.sleep(self._delay_s)
        return self._store.get(key, start, end)

    def delete(self, keys: Iterable[str]) -> None:
        """See the port."""
        self._store.delete(keys)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See the port."""
        return self._store.list(prefix)

    def size(self, key: str) -> int:
        """See the port."""
        return self._store.size(key)

    def close(self) -> None:
        """See the port."""
        self._store.close()


def delayed(store: ObjectStore, delay_ms: float) -> ObjectStore:
    """`store` itself when there is no delay."""
    return DelayedStore(store, delay_ms) if delay_ms else store
