"""The requests that wait for a partition: for records, for replication, or for the low watermark."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.protocol.ids import TopicPartition


class WaitingReaders:
    """The purgatories of requests that wait for records: of Fetch, and of ShareFetch."""

    __slots__ = ("_purgatories",)

    def __init__(self, *purgatories: Purgatory) -> None:
        self._purgatories = purgatories

    def check_and_complete(self, key: Hashable) -> None:
        """Complete the requests under `key` whose condition holds now."""
        for purgatory in self._purgatories:
            if purgatory.watched_count:
                purgatory.check_and_complete(key)


class WaitingRequests:
    """The purgatories in which requests are watched by partition."""

    __slots__ = ("_purgatories", "delete_records")

    def __init__(self, delete_records: Purgatory, *others: Purgatory) -> None:
        self.delete_records = delete_records
        self._purgatories = (*others, delete_records)

    def check(self, topic_partition: TopicPartition) -> None:
        """Complete the requests that can be completed after an offset or the partition's role changed."""
        for purgatory in self._purgatories:
            if purgatory.watched_count:
                purgatory.check_and_complete(topic_partition)

    def check_all(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Do what `check` does for each of up to 10,000 partitions."""
        for purgatory in self._purgatories:
            purgatory.check_all(topic_partitions)
