"""The topics of a subscription: by name, or by a pattern that also matches future topics.

The client matches a pattern, or the coordinator of a consumer group does (`SubscriptionPattern`, KIP-848).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelog.base.dataclass import dataclass
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.metadata.topic_names import require_topic_name
from tidelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression in RE2's syntax, which the coordinator matches with whole names of topics.

    The client then needs no metadata of other topics. Source: SubscriptionPattern of Kafka's consumer.
    """

    pattern: str


TopicPattern = str | re.Pattern[str] | SubscriptionPattern


class TopicSubscription:
    """Topics by name, or topics whose whole name matches `pattern`; exactly one of both.

    `coordinator_pattern` is the pattern that the coordinator matches; `topics` is then empty.
    """

    def __init__(
        self, topics: Iterable[str], pattern: TopicPattern | None, *, exclude_internal: bool
    ) -> None:
        if isinstance(topics, str):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topics={topics!r}: give a list of names")
        self.topics = frozenset(topics)
        for topic in self.topics:
            require_topic_name(topic)
        self._pattern: re.Pattern[str] | None = None
        self.coordinator_pattern: str | None = None
        if isinstance(pattern, SubscriptionPattern):
            self.coordinator_pattern = _sent(pattern)
        elif pattern is not None:
            self._pattern = _compiled(pattern)
        self._exclude_internal = exclude_internal
        self._is_matched = False
        if bool(self.topics) == (pattern is not None):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "subscribe needs either topics or a pattern")

    @property
    def needs_all_topics(self) -> bool:
        """Whether the client matches a pattern, which needs all topics of the cluster."""
        return self._pattern is not None

    def match(self, metadata: ClusterMetadata) -> bool:
        """Match the pattern against the existing topics; return whether the result has changed."""
        if self._pattern is None or not metadata.is_whole:
            return False
        before = self.topics if self._is_matched else None
        self.topics = frozenset(
            name
            for name, topic in metadata.topics.items()
            if self._pattern.fullmatch(name) and not (topic.is_internal and self._exclude_internal)
        )
        self._is_matched = True
        return self.topics != before


def _sent(pattern: SubscriptionPattern) -> str:
    """Return the text of a pattern; the coordinator checks its syntax."""
    if not isinstance(pattern.pattern, str) or not pattern.pattern:
        text = f"{pattern!r}: the pattern is a text with at least one character"
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
    return pattern.pattern


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        text = f"pattern={pattern!r} is not a regular expression: {error}"
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error
