"""A cache with a bounded sum of weights that evicts the least recently used entry first.

It has neither locks nor a clock: the caller holds its own lock and passes the time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from tidelog.base.dataclass import dataclass

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    weight: int
    used_ms: int


class BoundedLru(Generic[K, V]):
    """Caches values by key.

    Invariant: `weight` is the sum of the entries' weights and at most `capacity`; None means no bound.
    An entry that was not used for `retention_ms` is removed by the next call that takes a time. If
    `retention_ms` is None, entries do not expire.
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
        """Return the value of `key` and mark it as the most recently used; None if it is not cached."""
        entry = self._entries.get(key)
        if entry is None or self._is_expired(entry, now_ms):
            return None
        entry.used_ms = now_ms
        self._entries.move_to_end(key)
        return entry.value

    def peek(self, key: K) -> V | None:
        """Return the value of `key`, also if it has expired, and do not mark it as used."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def put(self, key: K, value: V, weight: int, now_ms: int) -> list[tuple[K, V]]:
        """Add `value` and return the evicted entries.

        If `weight` exceeds the capacity, `value` is not cached and is among the evicted entries.
        """
        evicted = self.remove(key)
        if self.capacity is not None and weight > self.capacity:
            return [*evicted, (key, value)]
        evicted += self.shrink(None if self.capacity is None else self.capacity - weight, now_ms)
        self._entries[key] = _Entry(value, weight, now_ms)
        self.weight += weight
        return evicted

    def shrink(self, weight: int | None, now_ms: int) -> list[tuple[K, V]]:
        """Remove and return the expired entries, then the least recently used ones above `weight`.

        If `weight` is None, only expired entries are removed.
        """
        evicted: list[tuple[K, V]] = []
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if not self._is_expired(entry, now_ms) and (weight is None or self.weight <= weight):
                break
            evicted += self.remove(key)
        return evicted

    def remove(self, key: K) -> list[tuple[K, V]]:
        """Remove `key`; return its entry in a list, which is empty if it was not cached."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return []
        self.weight -= entry.weight
        return [(key, entry.value)]

    def _is_expired(self, entry: _Entry[V], now_ms: int) -> bool:
        return self._retention_ms is not None and now_ms - entry.used_ms > self._retention_ms
