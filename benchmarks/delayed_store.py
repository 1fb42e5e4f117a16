"""An object store whose GETs have the latency of a distant store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from tidelog.remote.objects.stores.port import Content, ObjectInfo, ObjectStore
from tidelog.remote.ports.storage_manager import ReadableStream


class DelayedStore:
    """Adds `delay_ms` to each `get` of `store` before the first byte; other methods are unchanged."""

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

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See the port."""
        return self._store.list(prefix, start_after)

    def size(self, key: str) -> int:
        """See the port."""
        return self._store.size(key)

    def close(self) -> None:
        """See the port."""
        self._store.close()


def delayed(store: ObjectStore, delay_ms: float) -> ObjectStore:
    """Return `store` with the delay, or `store` itself if the delay is 0."""
    return DelayedStore(store, delay_ms) if delay_ms else store
