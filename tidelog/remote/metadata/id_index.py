"""An index of rows by segment id: a hash table in one array, about ten bytes per entry.

Open addressing with linear probing. The ids are stored in the rows and are read through `id_of`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

IdOf: TypeAlias = Callable[[int], bytes]

_EMPTY: Final = -1
_REMOVED: Final = -2
_SMALLEST: Final = 8


class IdIndex:
    """Rows by id. Invariant: at most two thirds of the slots are used, so that every probe ends."""

    __slots__ = ("_slots", "_used")

    def __init__(self) -> None:
        self._slots = array("i", (_EMPTY,)) * _SMALLEST
        self._used = 0

    def reserve(self, count: int) -> None:
        """Make room for `count` entries in an empty index, which then does not grow."""
        assert not self._used, self._used
        self._slots = array("i", (_EMPTY,)) * _slot_count(count)

    def find(self, key: bytes, id_of: IdOf) -> int | None:
        """Return the row whose id is `key`, None if there is none."""
        for slot in self._probe(key):
            row = self._slots[slot]
            if row == _EMPTY:
                return None
            if row != _REMOVED and id_of(row) == key:
                return row
        raise AssertionError("a probe found no empty slot")

    def add(self, key: bytes, row: int, id_of: IdOf) -> None:
        """Add `row` with id `key`, which must be new."""
        if 3 * (self._used + 1) > 2 * len(self._slots):
            self._rebuild(id_of)
        self._place(key, row)

    def remove(self, key: bytes, id_of: IdOf) -> None:
        """Remove `key`, which must exist."""
        for slot in self._probe(key):
            row = self._slots[slot]
            assert row != _EMPTY, key
            if row != _REMOVED and id_of(row) == key:
                self._slots[slot] = _REMOVED
                return

    def _probe(self, key: bytes) -> Iterator[int]:
        mask = len(self._slots) - 1
        slot = hash(key) & mask
        while True:
            yield slot
            slot = (slot + 1) & mask

    def _place(self, key: bytes, row: int) -> None:
        # Without `_probe`, because a start places each segment.
        slots = self._slots
        mask = len(slots) - 1
        slot = hash(key) & mask
        while slots[slot] != _EMPTY:
            slot = (slot + 1) & mask
        slots[slot] = row
        self._used += 1

    def _rebuild(self, id_of: IdOf) -> None:
        rows = [row for row in self._slots if row >= 0]
        self._slots = array("i", (_EMPTY,)) * _slot_count(len(rows))
        self._used = 0
        for row in rows:
            self._place(id_of(row), row)


def _slot_count(count: int) -> int:
    size = _SMALLEST
    while size < 2 * (count + 1):
        size *= 2
    return size
