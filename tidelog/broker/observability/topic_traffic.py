"""Counters of the traffic of all topics: plain integers, which the metrics read at each scrape.

Source: ReplicaManager of Apache Kafka (which errors count as failed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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


@dataclass(slots=True, eq=False)
class TopicTraffic:
    """The totals over all topics of one broker; Kafka's BrokerTopicMetrics."""

    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    replication_bytes_out: int = 0
