"""When the initialization of the states of share groups has begun.

The times are not in the log: a new coordinator initializes what is not initialized.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID


class InitializationTimes:
    """The monotonic time of the last initialization of each topic of each group.

    Bounds: an entry for each topic whose initialization has not ended, of groups that exist.
    """

    def __init__(self) -> None:
        self._began_ms: dict[str, dict[UUID, int]] = {}

    def begin(self, group_id: str, topic_ids: Iterable[UUID], now_ms: int) -> None:
        """Note that the initialization of topics begins."""
        self._began_ms.setdefault(group_id, {}).update(dict.fromkeys(topic_ids, now_ms))

    def elapsed_ms(self, group_id: str, topic_id: UUID, now_ms: int) -> int | None:
        """Return the time since the initialization of a topic has begun; None if that is not known."""
        began_ms = self._began_ms.get(group_id, {}).get(topic_id)
        return None if began_ms is None else now_ms - began_ms

    def keep(self, group_id: str, topic_ids: Iterable[UUID]) -> None:
        """Remove the topics of a group whose initialization has ended: all but `topic_ids`."""
        kept = frozenset(topic_ids)
        remaining = {
            topic_id: began_ms
            for topic_id, began_ms in self._began_ms.pop(group_id, {}).items()
            if topic_id in kept
        }
        if remaining:
            self._began_ms[group_id] = remaining
