"""The deadlines of the groups of one partition: sessions, joins, syncs and revocations.

Every heartbeat moves its member's deadline, so moving a deadline later costs one dictionary write: the old
heap entry stays and is corrected at its time. A deadline that has moved often costs one correction, not one
for each heartbeat.
"""

from __future__ import annotations

import heapq
from enum import Enum
from typing import Final, NamedTuple

_SPARE_ENTRIES: Final = 64
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


class Deadlines:
    """At most one deadline for each key, on the monotonic clock.

    Bounds: one for each member of a classic group or share group and each pending member, two for each
    classic group, four for each member of a consumer group, one for each streams group and two for each of
    its members; the heap has at most twice as many entries plus 64.
    Invariant: every key has a heap entry that is not later than its deadline.
    """

    def __init__(self) -> None:
        self._deadlines: dict[DeadlineKey, int] = {}
        self._first_entry: dict[DeadlineKey, int] = {}
        self._heap: list[tuple[int, int, DeadlineKey]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: DeadlineKey) -> bool:
        return key in self._deadlines

    def set(self, key: DeadlineKey, deadline_ms: int) -> None:
        """Set or move the deadline of `key`."""
        self._deadlines[key] = deadline_ms
        entry = self._first_entry.get(key)
        if entry is None or entry > deadline_ms:
            self._push(key, deadline_ms)

    def cancel(self, key: DeadlineKey) -> None:
        """Remove the deadline of `key`, if there is one."""
        self._deadlines.pop(key, None)

    def next_deadline_ms(self) -> int | None:
        """Return a time before which no deadline expires; None if there is no deadline."""
        return self._heap[0][0] if self._deadlines else None

    def pop_expired(self, now_ms: int) -> DeadlineKey | None:
        """Remove and return the earliest deadline that has expired.

        None: none has, or `CORRECTIONS_MAX` entries were outdated; then `next_deadline_ms` is not later than
        `now_ms`.
        """
        for _ in range(CORRECTIONS_MAX):
            if not self._heap or self._heap[0][0] > now_ms:
                return None
            entry_ms, _, key = heapq.heappop(self._heap)
            if self._first_entry.get(key) != entry_ms:
                continue
            del self._first_entry[key]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms == entry_ms:
                del self._deadlines[key]
                return key
            if deadline_ms is not None:
                self._push(key, deadline_ms)
        return None

    def clear(self) -> None:
        """Remove all deadlines."""
        self._deadlines.clear()
        self._first_entry.clear()
        self._heap.clear()

    def _push(self, key: DeadlineKey, deadline_ms: int) -> None:
        if len(self._heap) > 2 * len(self._deadlines) + _SPARE_ENTRIES:
            self._rebuild()
        self._sequence += 1
        self._first_entry[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))

    def _rebuild(self) -> None:
        """Remove all outdated entries, which members that join and leave would accumulate."""
        self._first_entry = dict(self._deadlines)
        entries = enumerate(self._deadlines.items())
        self._heap = [(deadline_ms, index, key) for index, (key, deadline_ms) in entries]
        heapq.heapify(self._heap)
        self._sequence += len(self._heap)
