"""Shared loads: concurrent callers that need the same missing value load it only once."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Tracks the loads in progress by key, each with the future that the other callers wait for.

    The first caller of a key loads the value in its own thread, calls `end`, and then completes the future.
    It has no lock: callers hold the lock of the cache that the values belong to.
    """

    __slots__ = ("_loads",)

    def __init__(self) -> None:
        self._loads: dict[K, Future[V]] = {}

    def join(self, key: K) -> tuple[Future[V], bool]:
        """Return the future of the load of `key`, and whether this caller has to load the value."""
        load = self._loads.get(key)
        if load is not None:
            return load, False
        load = self._loads[key] = Future()
        return load, True

    def end(self, key: K, load: Future[V]) -> bool:
        """End a load, which may have failed; return False if its key was forgotten during the load."""
        if self._loads.get(key) is not load:
            return False
        del self._loads[key]
        return True

    def forget(self, key: K) -> None:
        """Let the next caller start a new load of `key`; callers of the current load still get its value."""
        self._loads.pop(key, None)
