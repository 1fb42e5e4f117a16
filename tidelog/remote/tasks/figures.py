"""What the RemoteLogManager counts, as a plain object; the broker makes metrics of it.

Source: KIP-405, KIP-930 (names), KIP-963 (lags, sizes), KIP-956 (throttle times).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tidelog.remote.ports.segment_metadata import TopicIdPartition


@dataclass(slots=True)
class TopicFigures:
    """Counters of one topic, which only rise; Kafka gives them as rates per second."""

    copy_bytes: int = 0
    copy_requests: int = 0
    copy_errors: int = 0
    fetch_bytes: int = 0
    fetch_requests: int = 0
    fetch_errors: int = 0
    delete_requests: int = 0
    delete_errors: int = 0


@dataclass(slots=True)
class PartitionFigures:
    """How one partition stands that is led here, as of its last tasks."""

    copy_lag_bytes: int = 0
    copy_lag_segments: int = 0
    delete_lag_bytes: int = 0
    delete_lag_segments: int = 0
    log_size_bytes: int = 0
    """Bytes of all of its segments in remote storage, in whatever state."""
    metadata_count: int = 0
    """How many those are."""
    log_size_computation_time_ms: int = 0


@dataclass(slots=True)
class RemoteFigures:
    """Counters by topic name, gauges by partition, and times in all."""

    topics: dict[str, TopicFigures] = field(default_factory=dict)
    partitions: dict[TopicIdPartition, PartitionFigures] = field(default_factory=dict)
    copy_throttle_time_ms: int = 0
    """Milliseconds that copies have waited for the quota."""
    copy_throttle_count: int = 0
    fetch_throttle_time_ms: int = 0
    fetch_throttle_count: int = 0

    def topic(self, topic: str) -> TopicFigures:
        """The counters of `topic`, from 0 on."""
        return self.topics.setdefault(topic, TopicFigures())

    def partition(self, partition: TopicIdPartition) -> PartitionFigures:
        """The gauges of `partition`, which is led here."""
        return self.partitions.setdefault(partition, PartitionFigures())

    def forget_topics_but(self, topics: Collection[str]) -> None:
        """The counters of other topics go: they were deleted, or have no partition here any more."""
        for topic in self.topics.keys() - topics:
            del self.topics[topic]

    def forget_partition(self, partition: TopicIdPartition) -> None:
        """`partition` is led here no more."""
        self.partitions.pop(partition, None)
