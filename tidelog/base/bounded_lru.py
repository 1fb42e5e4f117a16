"""Entries with a weight, bounded in sum; the one not used for longest goes first.

Plain state, no locks, no clock: the caller holds its lock and says what time it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    weight: int
    used_ms: int


class BoundedLru(Generic[K, V]):
    """Values by key.

    Invariant: `weight` is the sum of the entries' weights and never above `capacity` (None: no bound).
    An entry not used for `retention_ms` (None: never) is gone at the next call that names a time.
    """

    def __init__(self, capacity: int | None, retention_ms: int | None) -> None:
        self.capacity = capacity
        self._retention_ms = retention_ms
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def get(self, key: K, now_ms: int) -> V | None:
        """The value of `key`, which is now the most recently used."""
        entry = self._entries.get(key)
        if entry is None or self._is_expired(entry, now_ms):
            return None
        entry.used_ms = now_ms
        self._entries.move_to_end(key)
        return entry.value

    def put(self, key: K, value: V, weight: int, now_ms: int) -> list[tuple[K, V]]:
        """Keep `value`; the answer is what had to go: `value` itself when it is heavier than is allowed."""
        gone = self.remove(key)
        if self.capacity is not None and weight > self.capacity:
            return [*gone, (key, value)]
        gone += self.shrink(None if self.capacity is None else self.capacity - weight, now_ms)
        self._entries[key] = _Entry(value, weight, now_ms)
        self.weight += weight
        return gone

    def shrink(self, weight: int | None, now_ms: int) -> list[tuple[K, V]]:
        """Drop entries until at most `weight` (None: any) is left, and those that are expired."""
        gone: list[tuple[K, V]] = []
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if not self._is_expired(entry, now_ms) and (weight is None or self.weight <= weight):
                break
            gone += self.remove(key)
        return gone

    def remove(self, key: K) -> list[tuple[K, V]]:
        """Drop `key`; the answer holds it, or nothing when it was not there."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return []
        self.weight -= entry.weight
        return [(key, entry.value)]

    def _is_expired(self, entry: _Entry[V], now_ms: int) -> bool:
        return self._retention_ms is not None and now_ms - entry.used_ms > self._retention_ms
