"""Counters of what goes through topics: plain integers, read by the metrics when asked."""

from __future__ import annotations


class TopicTraffic:
    """Totals over all topics of one broker, Kafka's BrokerTopicMetrics."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.replication_bytes_out = 0
