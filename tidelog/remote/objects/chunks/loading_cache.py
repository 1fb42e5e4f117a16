"""Small values that are fetched once: manifests and indexes.

Whoever asks first loads in its own thread; who asks meanwhile waits for it. A failure goes to all of them
and is not kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Generic, TypeVar

from tidelog.base.clock import SystemClock
from tidelog.remote.objects.chunks.bounded_lru import BoundedLru
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.ports.storage_manager import RemoteStorageError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LoadingCache(Generic[K, V]):
    """Values by key, bounded by the sum of `weigh`.

    Errors: what the loader raises, to everyone who waits for it; RemoteStorageError after `get_timeout_ms`.
    """

    def __init__(
        self,
        settings: CacheSettings,
        weigh: Callable[[V], int],
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self._settings = settings
        self._weigh = weigh
        self._now_ms = now_ms or SystemClock().monotonic_ms
        self._lock = threading.Lock()
        self._kept: BoundedLru[K, V] = BoundedLru(settings.size, settings.retention_ms)
        self._loading: dict[K, Future[V]] = {}

    @property
    def weight(self) -> int:
        """What is kept, by weight."""
        return self._kept.weight

    def get(self, key: K, load: Callable[[], V]) -> V:
        """The value of `key`, loaded when it is not kept."""
        with self._lock:
            value = self._kept.get(key, self._now_ms())
            if value is not None:
                return value
            waiting = self._loading.get(key)
            if waiting is None:
                mine = self._loading[key] = Future()
        if waiting is not None:
            return self._wait(waiting, key)
        return self._load(key, load, mine)

    def keep(self, key: K, value: V) -> None:
        """Keep a value that was come by otherwise."""
        with self._lock:
            self._kept.put(key, value, self._weigh(value), self._now_ms())

    def forget(self, key: K) -> None:
        """Drop `key`; what is being loaded for it is given to those who wait, and not kept."""
        with self._lock:
            self._kept.remove(key)
            self._loading.pop(key, None)

    def _load(self, key: K, load: Callable[[], V], mine: Future[V]) -> V:
        try:
            value = load()
        except BaseException as error:
            with self._lock:
                if self._loading.get(key) is mine:
                    del self._loading[key]
            mine.set_exception(error)
            raise
        with self._lock:
            if self._loading.get(key) is mine:
                del self._loading[key]
                self._kept.put(key, value, self._weigh(value), self._now_ms())
        mine.set_result(value)
        return value

    def _wait(self, waiting: Future[V], key: K) -> V:
        try:
            return waiting.result(self._settings.get_timeout_ms / 1000)
        except FutureTimeout:
            raise RemoteStorageError(
                f"{key} was not there within {self._settings.get_timeout_ms} ms"
            ) from None
