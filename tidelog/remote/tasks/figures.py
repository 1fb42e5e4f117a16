"""The counters of the RemoteLogManager as a plain object; the broker exports them as metrics.

Source: KIP-405, KIP-930 (names), KIP-963 (lags, sizes), KIP-956 (throttle times).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.remote.ports.segment_metadata import TopicIdPartition


@dataclass(slots=True)
class TopicFigures:
    """Counters of one topic, which only increase; Kafka reports them as rates per second."""

    copy_bytes: int = 0
    copy_requests: int = 0
    copy_errors: int = 0
    fetch_bytes: int = 0
    fetch_requests: int = 0
    fetch_errors: int = 0
    fetch_damages: int = 0
    """Reads that failed because the stored bytes were damaged, after a second attempt."""
    delete_requests: int = 0
    delete_errors: int = 0


@dataclass(slots=True)
class PartitionFigures:
    """Gauges of one partition whose leader is this node, as of its last tasks."""

    copy_lag_bytes: int = 0
    copy_lag_segments: int = 0
    delete_lag_bytes: int = 0
    delete_lag_segments: int = 0
    log_size_bytes: int = 0
    """The size of all its segments in remote storage, in every state."""
    metadata_count: int = 0
    """The number of these segments."""
    log_size_computation_time_ms: int = 0


@dataclass(slots=True)
class RemoteFigures:
    """Counters by topic name, gauges by partition, and total times."""

    topics: dict[str, TopicFigures] = field(default_factory=dict)
    partitions: dict[TopicIdPartition, PartitionFigures] = field(default_factory=dict)
    copy_throttle_time_ms: int = 0
    """Milliseconds that copies have waited for the quota."""
    copy_throttle_count: int = 0
    fetch_throttle_time_ms: int = 0
    fetch_throttle_count: int = 0

    def topic(self, topic: str) -> TopicFigures:
        """Return the counters of `topic`, which start at 0."""
        return self.topics.setdefault(topic, TopicFigures())

    def partition(self, partition: TopicIdPartition) -> PartitionFigures:
        """Return the gauges of `partition`, whose leader is this node."""
        return self.partitions.setdefault(partition, PartitionFigures())

    def retain_topics(self, topics: Collection[str]) -> None:
        """Remove the counters of all topics except `topics`: the others have no partition on this node."""
        for topic in self.topics.keys() - topics:
            del self.topics[topic]

    def remove_partition(self, partition: TopicIdPartition) -> None:
        """Remove the gauges of `partition`, whose leader is no longer this node."""
        self.partitions.pop(partition, None)
