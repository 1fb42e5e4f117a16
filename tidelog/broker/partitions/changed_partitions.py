"""The partitions whose metadata has changed, until they get their roles in it.

One metadata update can change 10,000 partitions of a node, for example when another broker is fenced. To
become leader or follower of 2,000 takes 12 ms. The partitions therefore get their roles in several turns of
the event loop, each the role of the metadata at that time, like partitions whose logs are being created.
Until then a partition has the role of the earlier metadata, as if the update had arrived later.

Bounds: one entry for each partition of the metadata.
"""

from __future__ import annotations

from itertools import islice
from typing import Final
from uuid import UUID

ROLES_PER_TURN: Final = 100
"""To give this many partitions their roles takes about 1 ms."""


class ChangedPartitions:
    """Changed partitions in the order of their changes, by topic id and index; each at most once."""

    __slots__ = ("_changed",)

    def __init__(self) -> None:
        self._changed: dict[tuple[UUID, int], bool] = {}
        """Whether the partition is new on this node."""

    def __len__(self) -> int:
        return len(self._changed)

    def add(self, topic_id: UUID, index: int, *, is_new: bool) -> None:
        """Add a partition behind the others, unless it waits already."""
        is_new = is_new or self._changed.get((topic_id, index), False)
        self._changed[topic_id, index] = is_new

    def take(self, count: int) -> list[tuple[UUID, int, bool]]:
        """Remove up to `count` of the partitions; return each with whether it is new on this node."""
        taken = [(*key, is_new) for key, is_new in islice(self._changed.items(), count)]
        for topic_id, index, _ in taken:
            del self._changed[topic_id, index]
        return taken
