"""Counts the topics that the members of a group subscribe to by name.

I/O: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import TypeVar

from tidelog.broker.coordinators.groups.members.topic_names import TopicNames

KeyT = TypeVar("KeyT", str, TopicNames)


class SubscribedNames:
    """The names of all members.

    Those of most members are counted one by one: thousands of members subscribe to few topics. A wide
    subscription counts as a whole, so that a change takes no time for each of its names.

    Invariant: no count is 0.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._wide: Counter[TopicNames] = Counter()

    def copy(self) -> SubscribedNames:
        """Return a copy that a command can change."""
        copy = SubscribedNames()
        copy._counts = self._counts.copy()
        copy._wide = self._wide.copy()
        return copy

    def replace(self, old: TopicNames, new: TopicNames) -> None:
        """Count the names `new` of a member in place of `old`."""
        if old == new:
            return
        if old.is_wide:
            subtract(self._wide, (old,))
        else:
            subtract(self._counts, old.as_set)
        if new.is_wide:
            self._wide[new] += 1
        else:
            self._counts.update(new.as_set)

    def __bool__(self) -> bool:
        return bool(self._counts or self._wide)

    def __contains__(self, topic: str) -> bool:
        return topic in self._counts or any(topic in names.as_set for names in self._wide)

    @property
    def is_wide(self) -> bool:
        """Whether a member has a wide subscription."""
        return bool(self._wide)

    def sets(self) -> list[Set[str]]:
        """Return sets that together have all names."""
        return [self._counts.keys(), *(names.as_set for names in self._wide)]

    def include_any(self, topics: Set[str]) -> bool:
        """Return whether a member subscribes to one of `topics`."""
        return not all(names.isdisjoint(topics) for names in self.sets())

    def are_equal(self, member_count: int) -> bool:
        """Return whether each of the members subscribes to all names."""
        counts = [*self._counts.values(), *self._wide.values()]
        return all(count == member_count for count in counts) and (len(self._wide) + bool(self._counts) <= 1)


def subtract(counts: Counter[KeyT], keys: Iterable[KeyT]) -> None:
    """Count each of `keys` once less; no count becomes 0."""
    for key in keys:
        if counts[key] <= 1:
            del counts[key]
        else:
            counts[key] -= 1
