"""The names of the topics to which a member of a consumer group or a share group subscribes.

A member may subscribe to tens of thousands of topics. Its commands and their replay therefore do no work for
each name: the set, the order and the memory of the names are computed once, in steps before the command.

I/O: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, TypeGuard

from tidelog.base.dataclass import dataclass
from tidelog.protocol.steps import Steps, sorted_in_steps

WIDE_SUBSCRIPTION: Final = 1_000
"""A member with more names has a wide subscription. This number of names takes about 1 ms."""

_RECORDS_MAX: Final = 2
"""The records of members of one command: a static member is replaced, and then changed."""


@dataclass(frozen=True, slots=True, eq=False)
class TopicNames:
    """Distinct names in order and as a set. `character_count` is the sum of their lengths.

    Equal names have equal hashes, which the set computes once.
    """

    ordered: tuple[str, ...]
    as_set: frozenset[str]
    character_count: int

    @classmethod
    def of(cls, names: Collection[str]) -> TopicNames:
        """Return the distinct names of `names`."""
        as_set = frozenset(names)
        # Names that are in order already, as in a record, are sorted in linear time.
        ordered = sorted(names if len(names) == len(as_set) else as_set)
        return cls(tuple(ordered), as_set, sum(map(len, ordered)))

    @property
    def is_wide(self) -> bool:
        """Whether these are the names of a wide subscription."""
        return len(self.ordered) > WIDE_SUBSCRIPTION

    def size_bytes(self, bytes_per_name: int) -> int:
        """Return the memory of the names, each with an overhead of `bytes_per_name`."""
        return bytes_per_name * len(self.ordered) + self.character_count

    def changed_to(self, names: Collection[str] | None, prepared: TopicNames | None) -> TopicNames:
        """Return the names of a request, which `prepared` may have; this object if they are the same.

        None, which is not sent, changes nothing.
        """
        if names is None:
            return self
        changed = TopicNames.of(names) if prepared is None else prepared
        return self if changed == self else changed

    def __bool__(self) -> bool:
        return bool(self.ordered)

    def __hash__(self) -> int:
        return hash(self.as_set)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicNames) and (self is other or self.as_set == other.as_set)


def is_wide(names: Collection[str] | None) -> TypeGuard[Collection[str]]:
    """Return whether the names of a request are those of a wide subscription."""
    return names is not None and len(names) > WIDE_SUBSCRIPTION


NO_TOPIC_NAMES: Final = TopicNames((), frozenset(), 0)


def topic_names_in_steps(names: Iterable[str]) -> Steps[TopicNames]:
    """Return the same as `TopicNames.of`."""
    ordered: list[str] = []
    character_count = 0
    for name in (yield from sorted_in_steps(names)):
        if not ordered or ordered[-1] != name:
            ordered.append(name)
            character_count += len(name)
        yield None
    result = TopicNames(tuple(ordered), frozenset(ordered), character_count)
    yield None
    hash(result)  # Sets with other hashes differ, so that a comparison does not look up each name.
    return result


class NamesOfCommand:
    """The names in the records of the last command, which their replay uses.

    Bounds: the names of two members, until they are replayed or other commands add theirs.
    """

    def __init__(self) -> None:
        self._names: deque[TopicNames] = deque(maxlen=_RECORDS_MAX)

    def add(self, names: TopicNames) -> None:
        """Add the names of a member whose record a command returns."""
        self._names.append(names)

    def of_record(self, ordered: tuple[str, ...]) -> TopicNames:
        """Return the names of a record: those of the command that has created it, or of the log."""
        for position, names in enumerate(self._names):
            if names.ordered is ordered:
                del self._names[position]
                return names
        return TopicNames.of(ordered)
