"""Counts the topics and the expressions that the members of a consumer group subscribe to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from typing import NamedTuple

from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.members.subscribed_names import SubscribedNames, subtract
from tidelog.broker.coordinators.groups.members.topic_names import NO_TOPIC_NAMES


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
        self._names = SubscribedNames()
        self._by_expression: Counter[str] = Counter()
        self.expressions: Counter[str] = Counter()
        self.resolved: dict[str, ResolvedExpression] = {}

    def copy(self) -> Subscriptions:
        """Return a copy that a command can change."""
        copy = Subscriptions()
        copy._names = self._names.copy()
        copy._by_expression = self._by_expression.copy()
        copy.expressions = self.expressions.copy()
        copy.resolved = self.resolved.copy()
        return copy

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count `new` in place of `old`."""
        old_names = NO_TOPIC_NAMES if old is None else old.subscribed_topic_names
        new_names = NO_TOPIC_NAMES if new is None else new.subscribed_topic_names
        self._names.replace(old_names, new_names)
        old_expression = None if old is None else old.subscribed_topic_regex
        new_expression = None if new is None else new.subscribed_topic_regex
        if old_expression == new_expression:
            return
        if old_expression:
            subtract(self.expressions, (old_expression,))
        if new_expression:
            self.expressions[new_expression] += 1

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """Set the topics that match an expression; None deletes it."""
        old = self.resolved.pop(expression, None)
        if old is not None:
            subtract(self._by_expression, old.topics)
        if resolved is not None:
            self.resolved[expression] = resolved
            self._by_expression.update(resolved.topics)

    def drop_unused_expressions(self) -> list[str]:
        """Remove the topics of expressions without a subscriber. Return these expressions."""
        unused = [expression for expression in self.resolved if not self.expressions[expression]]
        for expression in unused:
            self.resolve(expression, None)
        return unused

    @property
    def are_wide(self) -> bool:
        """Whether a member subscribes to so many topics by name that its commands are prepared in steps."""
        return self._names.is_wide

    def name_sets(self) -> list[Set[str]]:
        """Return sets that together have all topics that a member subscribes to, by name or expression."""
        return [*self._names.sets(), self._by_expression.keys()]

    def includes(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, by name or by expression."""
        return topic in self._names or topic in self._by_expression

    def include_any(self, topics: Set[str]) -> bool:
        """Return whether a member subscribes to one of `topics`."""
        return self._names.include_any(topics) or not self._by_expression.keys().isdisjoint(topics)

    def name_sets_of(self, member: ConsumerMember) -> tuple[frozenset[str], ...]:
        """Return sets that together have the topics of a member, by name or by expression."""
        names = member.subscribed_topic_names.as_set
        resolved = self.resolved.get(member.subscribed_topic_regex or "")
        return (names,) if resolved is None else (names, resolved.topics)

    def are_homogeneous(self, member_count: int) -> bool:
        """Return whether all members subscribe to the same topics."""
        if not self.expressions:
            return self._names.are_equal(member_count)
        first_count = next(iter(self.expressions.values()))
        return (
            first_count == member_count
            and not self._names
            and all(count == 1 for count in self._by_expression.values())
        )
