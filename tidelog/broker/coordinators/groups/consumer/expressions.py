"""Subscriptions by regular expression: when the coordinator resolves them, and what follows from the result.

Matching all topics may take long, so it is not part of a heartbeat: the command returns the expressions to
resolve, the service resolves them in slices, and `on_resolved` writes the topics that match.

Source: GroupMetadataManager.maybeUpdateRegularExpressions and handleRegularExpressionsResult of Apache
Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum
from typing import Final

from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupSettings
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.consumer.records import (
    group_epoch,
    regular_expression,
    regular_expression_tombstone,
)
from tidelog.broker.coordinators.groups.consumer.subscriptions import ResolvedExpression
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

EXPRESSIONS_MAX: Final = 50
"""The distinct expressions of a group: the topics of each are stored. Kafka has no bound."""
REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""The expressions of a group are resolved at most this often, as in Kafka."""

_NOT_RESOLVED: Final = ResolvedExpression(frozenset(), 0, 0)


class ExpressionChange(Enum):
    """The change of the expression of a member by its heartbeat."""

    NONE = 0
    CHANGED = 1
    """The topics of the new expression are not known yet."""
    CHANGED_AND_RESOLVED = 2


class Expressions:
    """Decides which expressions are resolved.

    Bounds: `_resolving` has a group while the service resolves its expressions.
    """

    def __init__(self, settings: ConsumerGroupSettings, topics: Topics) -> None:
        self._settings = settings
        self._topics = topics
        self._resolving: set[str] = set()
        self._version_of_new_topics = -1

    def on_topics_created(self, version: int) -> None:
        """Note that the metadata has new topics as of `version`."""
        self._version_of_new_topics = version

    def change(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> ExpressionChange:
        """Return how the expression of a member changes.

        Raise INVALID_REGULAR_EXPRESSION, or GROUP_MAX_SIZE_REACHED for more than EXPRESSIONS_MAX.
        """
        if old.subscribed_topic_regex == new.subscribed_topic_regex:
            return ExpressionChange.NONE
        subscribed = group.subscriptions.expressions
        before, after = old.subscribed_topic_regex, new.subscribed_topic_regex
        if before and subscribed[before] == 1:
            records.append(regular_expression_tombstone(group.group_id, before))
        if after:
            if not subscribed[after]:
                _check_expression(after)
                freed_count = 1 if before and subscribed[before] == 1 else 0
                _check_room(group.group_id, len(subscribed) - freed_count)
            elif after in group.subscriptions.resolved:
                return ExpressionChange.CHANGED_AND_RESOLVED
            return ExpressionChange.CHANGED
        return ExpressionChange.CHANGED_AND_RESOLVED if before else ExpressionChange.CHANGED

    def to_resolve(
        self, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, now: Moment
    ) -> frozenset[str]:
        """Return the expressions to resolve now; empty if their topics are known and current.

        The caller resolves them, and then calls `on_resolved` or `on_not_resolved`.
        """
        subscriptions = group.subscriptions
        before, after = old.subscribed_topic_regex, new.subscribed_topic_regex
        if not after and not subscriptions.expressions:
            return frozenset()
        if group.group_id in self._resolving:
            return frozenset()
        last = next(iter(subscriptions.resolved.values()), None)
        if last is not None and now.wall_ms <= last.resolved_wall_ms + REFRESH_INTERVAL_MS_MIN:
            return frozenset()
        counts = subscriptions.expressions.copy()
        if before and before != after:
            counts[before] -= 1
        if after and before != after:
            counts[after] += 1
        wanted = frozenset(+counts)
        interval_ms = self._settings.broker.group_consumer_regex_refresh_interval_ms
        is_current = (
            last is not None
            and wanted == subscriptions.resolved.keys()
            and last.version >= self._version_of_new_topics
            and now.wall_ms <= last.resolved_wall_ms + interval_ms
        )
        if is_current or not wanted:
            return frozenset()
        self._resolving.add(group.group_id)
        return wanted

    def on_not_resolved(self, group_id: str) -> None:
        """Note that the expressions of a group could not be resolved; a later heartbeat tries again."""
        self._resolving.discard(group_id)

    def on_resolved(
        self, group: ConsumerGroup, resolved: Mapping[str, ResolvedExpression]
    ) -> list[CoordinatorRecord]:
        """Return the records of the topics that match, and of a new group epoch if these are other ones."""
        self._resolving.discard(group.group_id)
        subscriptions = group.subscriptions.copy()
        records: list[CoordinatorRecord] = []
        has_changed = False
        for expression, result in resolved.items():
            if not subscriptions.expressions[expression]:
                continue
            old = subscriptions.resolved.get(expression, _NOT_RESOLVED)
            has_changed = has_changed or old.topics != result.topics
            subscriptions.resolve(expression, result)
            records.append(
                regular_expression(
                    group.group_id, expression, result.topics, result.version, result.resolved_wall_ms
                )
            )
        metadata_hash = self._topics.hash_of(*subscriptions.name_sets())
        if has_changed or metadata_hash != group.epochs.metadata_hash:
            epoch = group.epochs.group_epoch + 1
            records.append(group_epoch(group.group_id, epoch, metadata_hash))
            group.epochs.on_metadata_checked(epoch)
            logger.info("Group %s: expressions match other topics, group epoch %d", group.group_id, epoch)
        return records


def _check_room(group_id: str, expression_count: int) -> None:
    if expression_count >= EXPRESSIONS_MAX:
        text = (
            f"The members of group {group_id} subscribe to {expression_count} regular expressions; "
            f"at most {EXPRESSIONS_MAX} are allowed."
        )
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def _check_expression(expression: str) -> None:
    try:
        RegularExpression(expression)
    except KafkaError as error:
        text = f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error
