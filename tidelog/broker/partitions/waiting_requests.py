"""The requests that wait for a partition: for records, for replication, or for the low watermark."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.protocol.ids import TopicPartition


class WaitingRequests:
    """The purgatories in which requests are watched by partition."""

    __slots__ = ("delete_records", "fetch", "produce")

    def __init__(self, fetch: Purgatory, produce: Purgatory, delete_records: Purgatory) -> None:
        self.fetch = fetch
        self.produce = produce
        self.delete_records = delete_records

    def check(self, topic_partition: TopicPartition) -> None:
        """Complete the requests that can be completed after an offset or the partition's role changed."""
        for purgatory in (self.fetch, self.produce, self.delete_records):
            if purgatory.watched_count:
                purgatory.check_and_complete(topic_partition)

    def check_all(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Do what `check` does for each of up to 10,000 partitions."""
        for purgatory in (self.fetch, self.produce, self.delete_records):
            purgatory.check_all(topic_partitions)
