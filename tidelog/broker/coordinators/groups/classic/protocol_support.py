"""The protocols (partition assignors) that the members of a group support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tidelog.broker.coordinators.groups.classic.member import Member


class ProtocolSupport:
    """Counts the members that support each protocol.

    Invariant: a protocol that no member supports has no entry.
    """

    def __init__(self) -> None:
        self._member_counts: Counter[str] = Counter()

    def add(self, names: frozenset[str]) -> None:
        """Count the protocols of a member."""
        self._member_counts.update(names)

    def remove(self, names: frozenset[str]) -> None:
        """Stop counting the protocols of a member."""
        for name in names:
            self._member_counts[name] -= 1
            if self._member_counts[name] == 0:
                del self._member_counts[name]

    def includes_common(self, names: Iterable[str], member_count: int) -> bool:
        """Return whether all `member_count` members support one of `names`."""
        return any(self._member_counts[name] == member_count for name in names)

    def select(self, members: Sequence[Member]) -> str:
        """Return the protocol that most members prefer among those that all support."""
        candidates = frozenset(name for name, count in self._member_counts.items() if count == len(members))
        votes = Counter(member.vote(candidates) for member in members)
        return votes.most_common(1)[0][0]
