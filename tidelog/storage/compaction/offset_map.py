"""The latest offset of each key in the part of a log that is being compacted.

A flat table with open addressing and double hashing. A slot takes 24 bytes:

| bytes | field |
|---|---|
| 16 | the hash of a key; `key_hashes` states the probability of a collision and its consequence |
| 8 | the latest offset of the key + 1; 0 in an empty slot |

Keys are added and looked up many at a time: each step examines one slot for each key that has no result yet.

Bounds: `slot_count` slots of SLOT_BYTES, or those for one batch. The memory is taken when slots are used.
Source: SkimpyOffsetMap of Apache Kafka 4.3.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.ids import Offset
from tidelog.protocol.record_columns.varints import Numbers
from tidelog.storage.compaction.key_hashes import KeyHasher, KeyHashes

SLOT_BYTES: Final = 24
MISSING: Final = -1
_LOAD_FACTOR_MIN: Final = 0.001
_PRIME_GAP_MAX: Final = 400
"""More than the distance of two successive prime numbers below _SLOTS_MAX."""
_SLOTS_MAX: Final = 2**31 - 1
_HALF_BITS: Final = np.uint64(32)
_ROW: Final = np.dtype((np.void, SLOT_BYTES))
_ZERO: Final = np.uint64(0)


class OffsetMap:
    """The keys with their latest offsets up to `latest_offset`, which is -1 for an empty map.

    Invariant: offsets above `latest_offset` belong to a batch that did not fit completely. At least one slot
    is empty, so that every search ends.
    """

    __slots__ = ("_rows", "_slot_count", "_table", "hasher", "key_count", "key_count_max", "latest_offset")

    def __init__(self, hasher: KeyHasher, key_count_max: int, slot_count: int) -> None:
        assert 0 < key_count_max < slot_count <= _SLOTS_MAX, f"{key_count_max} keys in {slot_count} slots"
        self.hasher = hasher
        self.key_count = 0
        self.latest_offset: Offset = -1
        self._allocate(slot_count)
        self.key_count_max = min(key_count_max, self._slot_count - 1)

    @classmethod
    def within(
        cls, hasher: KeyHasher, memory_bytes: int, load_factor: float, *, record_count_max: int
    ) -> OffsetMap:
        """Return a map whose table takes at most `memory_bytes`; `load_factor` of it may be used.

        The table is smaller if at most `record_count_max` records will be added: the first use of a page of
        memory takes longer than adding its keys.
        """
        sufficient = _PRIME_GAP_MAX + math.ceil(record_count_max / max(load_factor, _LOAD_FACTOR_MIN))
        slot_count = max(min(memory_bytes // SLOT_BYTES, sufficient, _SLOTS_MAX), 2)
        key_count_max = min(max(1, int(slot_count * load_factor)), slot_count - 1)
        return cls(hasher, key_count_max, slot_count)

    def _allocate(self, slot_count: int) -> None:
        # With a prime number of slots, a search reaches each of them. The memory is zeroed by the operating
        # system, so only used pages take space.
        slot_count = _prime_at_most(slot_count)
        self._table: NDArray[np.uint64] = np.zeros((slot_count, 3), dtype=np.uint64)
        self._rows = self._table.reshape(-1).view(_ROW)
        self._slot_count = slot_count

    @property
    def utilization(self) -> float:
        """The used share of the map, from 0 to 1."""
        return self.key_count / self.key_count_max

    def fits(self, key_count: int) -> bool:
        """Return whether this many more keys fit in any case."""
        return self.key_count + key_count <= self.key_count_max

    def put_batch(self, hashes: KeyHashes, offsets: Numbers) -> bool:
        """Add the keys of one batch with their rising offsets; return False if not all of them fit.

        The first batch always fits, so that compaction makes progress.
        """
        count = len(offsets)
        if not self.key_count and count > self.key_count_max:
            self._allocate(max(self._slot_count, 2 * count))
            self.put(hashes, offsets)
            return True
        added = 0
        while added < count:
            # At most as many slots are taken as there are keys, fewer if keys are repeated.
            free = self.key_count_max - self.key_count
            if free <= 0:
                return False
            part = slice(added, added + free)
            self.put(hashes.rows(part), offsets[part])
            added += free
        return True

    def put(self, hashes: KeyHashes, offsets: Numbers) -> None:
        """Add keys, which must fit, with their rising offsets, which are above those of earlier calls."""
        table = self._table
        slots, steps = self._first_slots(hashes)
        high, low = hashes
        values = offsets.astype(np.uint64) + np.uint64(1)
        while len(slots):
            found = self._rows[slots].view(np.uint64).reshape(-1, 3)
            is_empty = found[:, 2] == _ZERO
            has_result = (found[:, 0] == high) & (found[:, 1] == low) & ~is_empty
            # Of repeated slots, numpy assigns the last value, which is the largest.
            newer = np.flatnonzero(has_result & (found[:, 2] < values))
            table[slots[newer], 2] = values[newer]
            empty = np.flatnonzero(is_empty)
            if len(empty):
                has_result[self._take_empty(slots, empty, hashes=KeyHashes(high, low), values=values)] = True
            rest = np.flatnonzero(~has_result)
            # A key that did not get an empty slot looks at it again: it may be the key that got it.
            distances = np.where(is_empty[rest], 0, steps[rest])
            steps, high, low, values = steps[rest], high[rest], low[rest], values[rest]
            slots = self._next(slots[rest], distances)

    def _take_empty(
        self, slots: Numbers, empty: Numbers, *, hashes: KeyHashes, values: NDArray[np.uint64]
    ) -> Numbers:
        """Add the keys whose indexes are `empty` to their slots; return those that got their slot."""
        table, wanted = self._table, slots[empty]
        table[wanted, 2] = values[empty]
        winners: Numbers = empty[table[wanted, 2] == values[empty]]
        taken = slots[winners]
        table[taken, 0], table[taken, 1] = hashes.high[winners], hashes.low[winners]
        self.key_count += len(winners)
        return winners

    def latest(self, hashes: KeyHashes) -> Numbers:
        """Return the latest offset of each key, MISSING for an unknown one."""
        slots, steps = self._first_slots(hashes)
        high, low = hashes
        offsets = np.full(len(slots), MISSING, dtype=np.int64)
        pending: Numbers = np.arange(len(slots))
        while len(pending):
            found = self._rows[slots].view(np.uint64).reshape(-1, 3)
            is_empty = found[:, 2] == _ZERO
            is_same = (found[:, 0] == high) & (found[:, 1] == low) & ~is_empty
            offsets[pending[is_same]] = found[is_same, 2].view(np.int64) - 1
            rest = np.flatnonzero(~(is_same | is_empty))
            pending, steps, high, low = pending[rest], steps[rest], high[rest], low[rest]
            slots = self._next(slots[rest], steps)
        return offsets

    def all_latest(self) -> Numbers:
        """Return the latest offsets of all keys, in no particular order."""
        values = self._table[:, 2]
        return np.asarray(values[values != _ZERO].view(np.int64) - 1)

    def _first_slots(self, hashes: KeyHashes) -> tuple[Numbers, Numbers]:
        """Return the first slot of each key, and the distance from one of its slots to the next."""
        count = np.uint64(self._slot_count)
        # The upper half of a word times a range, as a division takes longer.
        slots = ((hashes.high >> _HALF_BITS) * count) >> _HALF_BITS
        steps = ((hashes.low >> _HALF_BITS) * (count - np.uint64(1))) >> _HALF_BITS
        return slots.view(np.int64), steps.view(np.int64) + 1

    def _next(self, slots: Numbers, steps: Numbers) -> Numbers:
        following = slots + steps
        following -= self._slot_count * (following >= self._slot_count)
        return following

    def taken_up_to(self, offset: Offset) -> None:
        """Record that all keys up to `offset` (inclusive) were added."""
        self.latest_offset = max(self.latest_offset, offset)


def _prime_at_most(number: int) -> int:
    """Return the largest prime number that is not above `number`."""
    divisors = np.arange(2, math.isqrt(number) + 1)
    while not (number % divisors[divisors * divisors <= number]).all():
        number -= 1
    return number
