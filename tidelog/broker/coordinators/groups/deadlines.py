"""The deadlines of the groups of one partition: sessions, joins, syncs and revocations.

Every heartbeat moves its member's deadline, so moving a deadline later costs one dictionary write: the old
heap entry stays and is corrected at its time. A deadline that has moved often costs one correction, not one
for each heartbeat.
"""

from __future__ import annotations

import heapq
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

_SPARE_ENTRIES: Final = 64
_CHECKED_ENTRIES: Final = 4
"""The entries of the former heap that are checked with each change: all at once would block the loop."""
CORRECTIONS_MAX: Final = 1_000
"""The heap entries that one call corrects, so that thousands of members do not block the event loop."""


class DeadlineKind(Enum):
    """The kind of a deadline."""

    SESSION = 0
    """A member has sent nothing for its session timeout."""
    JOIN = 1
    """The join phase of a rebalance has timed out."""
    SYNC = 2
    """Members have not sent SyncGroup in time."""
    CONSUMER_SESSION = 3
    """A member of a consumer group has sent nothing for its session timeout."""
    REVOCATION = 4
    """A member of a consumer group has not revoked its partitions in its rebalance timeout."""
    CLASSIC_JOIN = 5
    """A classic member of a consumer group has not joined again in its rebalance timeout."""
    CLASSIC_SYNC = 6
    """A classic member of a consumer group has not sent SyncGroup in its rebalance timeout."""
    SHARE_SESSION = 7
    """A member of a share group has sent nothing for its session timeout."""
    STREAMS_SESSION = 8
    """A member of a streams group has sent nothing for its session timeout."""
    STREAMS_REVOCATION = 9
    """A member of a streams group has not revoked its tasks in its rebalance timeout."""
    STREAMS_INITIAL_DELAY = 10
    """Members have had time to join a new streams group before its first assignment."""

    # That of Enum is a function of Python.
    __hash__ = object.__hash__


class DeadlineKey(NamedTuple):
    """Identifies a deadline; `member_id` is "" for deadlines of a whole group."""

    kind: DeadlineKind
    group_id: str
    member_id: str = ""


_Entry: TypeAlias = tuple[int, int, DeadlineKey]
"""A time in milliseconds, a number that makes entries of the same time different, and the key."""


class Deadlines:
    """At most one deadline for each key, on the monotonic clock.

    Outdated entries of the heap are removed when they are the majority. The last entry of a heap can be
    removed without changing the order of the others. So the heap becomes `_former`, which loses its last
    entries with each change, and those that are valid move to the next heap.

    Bounds: one for each member of a classic group or share group and each pending member, two for each
    classic group, four for each member of a consumer group, one for each streams group and two for each of
    its members; both heaps together have at most three times as many entries plus 64.
    Invariant: every key has a heap entry that is not later than its deadline.
    """

    def __init__(self) -> None:
        self._deadlines: dict[DeadlineKey, int] = {}
        self._valid_entries: dict[DeadlineKey, _Entry] = {}
        """The earliest entry of each key; all other entries of the key are outdated."""
        self._heap: list[_Entry] = []
        self._former: list[_Entry] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: DeadlineKey) -> bool:
        return key in self._deadlines

    def set(self, key: DeadlineKey, deadline_ms: int) -> None:
        """Set or move the deadline of `key`."""
        self._deadlines[key] = deadline_ms
        entry = self._valid_entries.get(key)
        if entry is None or entry[0] > deadline_ms:
            self._push(key, deadline_ms)
            self._remove_outdated()

    def cancel(self, key: DeadlineKey) -> None:
        """Remove the deadline of `key`, if there is one."""
        if self._deadlines.pop(key, None) is not None:
            self._remove_outdated()

    def next_deadline_ms(self) -> int | None:
        """Return a time before which no deadline expires; None if there is no deadline."""
        return self._earliest_heap()[0][0] if self._deadlines else None

    def pop_expired(self, now_ms: int) -> DeadlineKey | None:
        """Remove and return the earliest deadline that has expired.

        None: none has, or `CORRECTIONS_MAX` entries were outdated; then `next_deadline_ms` is not later than
        `now_ms`.
        """
        for _ in range(CORRECTIONS_MAX):
            heap = self._earliest_heap()
            if not heap or heap[0][0] > now_ms:
                return None
            entry = heapq.heappop(heap)
            key = entry[2]
            if self._valid_entries.get(key) is entry and self._deadlines.get(key) == entry[0]:
                del self._valid_entries[key], self._deadlines[key]
                return key
            self._keep(entry)
        return None

    def clear(self) -> None:
        """Remove all deadlines."""
        self._deadlines.clear()
        self._valid_entries.clear()
        self._heap.clear()
        self._former.clear()

    def _earliest_heap(self) -> list[_Entry]:
        """Return the heap that begins with the earliest entry; an empty one if there is no entry."""
        heap, former = self._heap, self._former
        return former if former and (not heap or former[0] < heap[0]) else heap

    def _push(self, key: DeadlineKey, deadline_ms: int) -> None:
        self._sequence += 1
        entry = self._valid_entries[key] = (deadline_ms, self._sequence, key)
        heapq.heappush(self._heap, entry)

    def _keep(self, entry: _Entry) -> None:
        """Add the deadline of an entry that was removed again, unless the entry is outdated."""
        key = entry[2]
        if self._valid_entries.get(key) is not entry:
            return
        deadline_ms = self._deadlines.get(key)
        if deadline_ms is None:
            del self._valid_entries[key]
        else:
            self._push(key, deadline_ms)

    def _remove_outdated(self) -> None:
        """Remove some outdated entries: members that join and leave add them."""
        if not self._former:
            if len(self._heap) <= 2 * len(self._deadlines) + _SPARE_ENTRIES:
                return
            self._former, self._heap = self._heap, []
        for _ in range(min(_CHECKED_ENTRIES, len(self._former))):
            self._keep(self._former.pop())
