"""Counts the topics and the expressions that the members of a consumer group subscribe to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Set
from typing import NamedTuple

from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember


class ResolvedExpression(NamedTuple):
    """The topics that match an expression, as of a version of the metadata and a time on the wall clock."""

    topics: frozenset[str]
    version: int
    resolved_wall_ms: int


class Subscriptions:
    """The subscriptions of all members.

    Invariant: no count is 0.
    """

    def __init__(self) -> None:
        self._by_name: Counter[str] = Counter()
        self._by_expression: Counter[str] = Counter()
        self.expressions: Counter[str] = Counter()
        self.resolved: dict[str, ResolvedExpression] = {}

    def copy(self) -> Subscriptions:
        """Return a copy that a command can change."""
        copy = Subscriptions()
        copy._by_name = self._by_name.copy()
        copy._by_expression = self._by_expression.copy()
        copy.expressions = self.expressions.copy()
        copy.resolved = self.resolved.copy()
        return copy

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count `new` in place of `old`."""
        if old is not None and new is not None and _subscribe_equally(old, new):
            return
        if old is not None:
            _subtract(self._by_name, old.subscribed_topic_names)
            if old.subscribed_topic_regex:
                _subtract(self.expressions, (old.subscribed_topic_regex,))
        if new is not None:
            self._by_name.update(new.subscribed_topic_names)
            if new.subscribed_topic_regex:
                self.expressions[new.subscribed_topic_regex] += 1

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """Set the topics that match an expression; None deletes it."""
        old = self.resolved.pop(expression, None)
        if old is not None:
            _subtract(self._by_expression, old.topics)
        if resolved is not None:
            self.resolved[expression] = resolved
            self._by_expression.update(resolved.topics)

    def drop_unused_expressions(self) -> list[str]:
        """Remove the topics of expressions without a subscriber. Return these expressions."""
        unused = [expression for expression in self.resolved if not self.expressions[expression]]
        for expression in unused:
            self.resolve(expression, None)
        return unused

    def topics(self) -> Collection[str]:
        """Return the names of all topics that a member subscribes to, by name or by expression."""
        if not self._by_expression:
            return self._by_name.keys()
        return self._by_name.keys() | self._by_expression.keys()

    def includes(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, by name or by expression."""
        return topic in self._by_name or topic in self._by_expression

    def include_any(self, topics: Set[str]) -> bool:
        """Return whether a member subscribes to one of `topics`, in time linear in the subscribed ones."""
        return any(topic in topics for topic in self._by_name) or any(
            topic in topics for topic in self._by_expression
        )

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member subscribes to, by name or by expression."""
        resolved = self.resolved.get(member.subscribed_topic_regex or "")
        if resolved is None:
            return member.subscribed_topic_names
        if not member.subscribed_topic_names:
            return resolved.topics
        return member.subscribed_topic_names | resolved.topics

    def are_homogeneous(self, member_count: int) -> bool:
        """Return whether all members subscribe to the same topics."""
        if not self.expressions:
            return all(count == member_count for count in self._by_name.values())
        first_count = next(iter(self.expressions.values()))
        return (
            first_count == member_count
            and not self._by_name
            and all(count == 1 for count in self._by_expression.values())
        )


def _subscribe_equally(old: ConsumerMember, new: ConsumerMember) -> bool:
    return (
        old.subscribed_topic_names == new.subscribed_topic_names
        and old.subscribed_topic_regex == new.subscribed_topic_regex
    )


def _subtract(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        if counts[name] <= 1:
            del counts[name]
        else:
            counts[name] -= 1
