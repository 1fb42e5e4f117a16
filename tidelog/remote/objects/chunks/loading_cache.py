"""A cache of small values that are loaded once for all concurrent callers: manifests and indexes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Generic, TypeVar

from tidelog.base.bounded_lru import BoundedLru
from tidelog.base.clock import SYSTEM_CLOCK, Clock
from tidelog.base.single_flight import SingleFlight
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.ports.storage_manager import RemoteStorageError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LoadingCache(Generic[K, V]):
    """Values by key, bounded by the sum of `weigh`. Thread-safe.

    Errors: those of the loader, for every caller that waits for it; they are not cached. RemoteStorageError
    after `get_timeout_ms`.
    """

    def __init__(
        self, settings: CacheSettings, weigh: Callable[[V], int], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._settings = settings
        self._weigh = weigh
        self._now_ms = clock.monotonic_ms
        self._lock = threading.Lock()
        self._values: BoundedLru[K, V] = BoundedLru(settings.size, settings.retention_ms)
        self._loads: SingleFlight[K, V] = SingleFlight()

    def get(self, key: K, load: Callable[[], V]) -> V:
        """Return the value of `key`, from `load` if it is not cached."""
        with self._lock:
            value = self._values.get(key, self._now_ms())
            if value is not None:
                return value
            future, is_first = self._loads.join(key)
        return self._load(key, load, future) if is_first else self._wait(future, key)

    def peek(self, key: K) -> V | None:
        """Return the value of `key` if it is cached, without loading it."""
        with self._lock:
            return self._values.peek(key)

    def put(self, key: K, value: V) -> None:
        """Cache `value`, which was loaded together with another one."""
        with self._lock:
            self._values.put(key, value, self._weigh(value), self._now_ms())

    def forget(self, key: K) -> None:
        """Remove `key`; a value that is being loaded is returned to its callers and not cached."""
        with self._lock:
            self._values.remove(key)
            self._loads.forget(key)

    def _load(self, key: K, load: Callable[[], V], future: Future[V]) -> V:
        try:
            value = load()
        except BaseException as error:
            with self._lock:
                self._loads.end(key, future)
            future.set_exception(error)
            raise
        with self._lock:
            if self._loads.end(key, future):
                self._values.put(key, value, self._weigh(value), self._now_ms())
        future.set_result(value)
        return value

    def _wait(self, future: Future[V], key: K) -> V:
        timeout_ms = self._settings.get_timeout_ms
        try:
            return future.result(timeout_ms / 1000)
        except FutureTimeout:
            raise RemoteStorageError(f"{key} was not loaded within {timeout_ms} ms") from None
