"""When the groups of one partition must act by themselves: sessions that end, rebalances that wait no longer.

A heartbeat moves its member's deadline, and there are many heartbeats, so moving a deadline
later costs one dictionary write: the old heap entry stays and is put back when it surfaces.
"""

from __future__ import annotations

import heapq
from enum import Enum
from typing import Final, NamedTuple

_SPARE_ENTRIES: Final = 64


class DeadlineKind(Enum):
    """What has to happen."""

    SESSION = 0
    """A member has not been heard of for its session time-out."""
    JOIN = 1
    """The time for joining a rebalance is over."""
    SYNC = 2
    """The time for asking for the assignment is over."""


class DeadlineKey(NamedTuple):
    """One deadline; `member_id` is "" for those of a whole group."""

    kind: DeadlineKind
    group_id: str
    member_id: str = ""


class Deadlines:
    """At most one deadline per key, on the monotonic clock.

    Bounds: one per member (also per member that has only been given an id) and two per group;
    the heap holds at most twice as many entries and 64.
    Invariant: every key has a heap entry that is not later than its deadline.
    """

    def __init__(self) -> None:
        self._due: dict[DeadlineKey, int] = {}
        self._first_entry: dict[DeadlineKey, int] = {}
        self._heap: list[tuple[int, int, DeadlineKey]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: DeadlineKey, due_ms: int) -> None:
        """Set or move the deadline of `key`."""
        self._due[key] = due_ms
        entry = self._first_entry.get(key)
        if entry is None or entry > due_ms:
            self._push(key, due_ms)

    def cancel(self, key: DeadlineKey) -> None:
        """Forget the deadline of `key`, if there is one."""
        self._due.pop(key, None)

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, or None when there is none."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_expired(self, now_ms: int) -> DeadlineKey | None:
        """Take one deadline that has come, earliest first."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._first_entry[key], self._due[key]
        return key

    def clear(self) -> None:
        """Forget everything."""
        self._due.clear()
        self._first_entry.clear()
        self._heap.clear()

    def _push(self, key: DeadlineKey, due_ms: int) -> None:
        if len(self._heap) > 2 * len(self._due) + _SPARE_ENTRIES:
            self._rebuild()
        self._sequence += 1
        self._first_entry[key] = due_ms
        heapq.heappush(self._heap, (due_ms, self._sequence, key))

    def _rebuild(self) -> None:
        """Drop all void entries; members that come and go would otherwise fill the heap."""
        self._first_entry = dict(self._due)
        self._heap = [(due_ms, index, key) for index, (key, due_ms) in enumerate(self._due.items())]
        heapq.heapify(self._heap)
        self._sequence += len(self._heap)

    def _settle(self) -> None:
        """Make the first heap entry a true one: drop entries that are void, put moved ones back."""
        while self._heap:
            entry_ms, _, key = self._heap[0]
            due_ms = self._due.get(key)
            if due_ms == entry_ms and self._first_entry[key] == entry_ms:
                return
            heapq.heappop(self._heap)
            if self._first_entry.get(key) != entry_ms:
                continue
            del self._first_entry[key]
            if due_ms is not None:
                self._push(key, due_ms)
