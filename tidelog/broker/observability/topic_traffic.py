"""Counters of the traffic of all topics and of each topic: plain integers, which each scrape reads.

Bounds: `topics_max` topics have counters of their own; the traffic of further topics is counted together as
OTHER_TOPICS.

Source: ReplicaManager of Apache Kafka (which errors count as failed).
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode

EXPECTED_PRODUCE_ERRORS: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors that do not count as failed requests: client errors, leader changes, errors with own metrics."""
EXPECTED_FETCH_ERRORS: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


OTHER_TOPICS: Final = "(other)"
"""Not a valid name of a topic."""
DEFAULT_TOPICS_MAX: Final = 1_000


@dataclass(slots=True, eq=False)
class TopicCounters:
    """The traffic of one topic with producers and consumers."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0


@dataclass(slots=True, eq=False)
class TopicTraffic:
    """The totals over all topics of one broker, Kafka's BrokerTopicMetrics, and the totals of each topic."""

    topics_max: int = DEFAULT_TOPICS_MAX
    topics: dict[str, TopicCounters] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    replication_bytes_out: int = 0

    def record_append(self, topic: str, size_bytes: int, messages: int) -> None:
        """Count one batch of a producer, which is one partition of a Produce request."""
        self.produce_requests += 1
        self.bytes_in += size_bytes
        self.messages_in += messages
        counters = self.topics.get(topic) or self._add(topic)
        counters.bytes_in += size_bytes
        counters.messages_in += messages

    def record_fetched(self, topic: str, size_bytes: int) -> None:
        """Count the bytes of one partition that a client has fetched."""
        self.bytes_out += size_bytes
        counters = self.topics.get(topic) or self._add(topic)
        counters.bytes_out += size_bytes

    def record_produce_request(self) -> None:
        """Count a partition of a Produce request to which nothing was appended."""
        self.produce_requests += 1

    def record_failed_produce(self) -> None:
        """Count a partition of a Produce request that has failed."""
        self.failed_produce_requests += 1

    def record_fetch(self, count: int, *, replicated_bytes: int) -> None:
        """Count `count` partitions of a Fetch request, and the bytes for a follower."""
        self.fetch_requests += count
        self.replication_bytes_out += replicated_bytes

    def record_failed_fetches(self, count: int) -> None:
        """Count `count` partitions of a Fetch request that have failed."""
        self.failed_fetch_requests += count

    def remove_topic(self, topic: str) -> None:
        """Remove the counters of a deleted topic."""
        self.topics.pop(topic, None)

    def _add(self, topic: str) -> TopicCounters:
        is_full = len(self.topics) - (OTHER_TOPICS in self.topics) >= self.topics_max
        return self.topics.setdefault(OTHER_TOPICS if is_full else topic, TopicCounters())
