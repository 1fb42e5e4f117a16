"""The requests that wait at a partition: for records, for replicas, for the low watermark."""

from __future__ import annotations

from broker.purgatory.purgatory import Purgatory
from protocol.ids import TopicPartition


class WaitingRequests:
    """The purgatories whose requests are watched by partition."""

    __slots__ = ("_all", "delete_records", "fetch", "produce")

    def __init__(
        self, fetch: Purgatory, produce: Purgatory, delete_records: Purgatory, *remote: Purgatory
    ) -> None:
        """`remote` are those of requests that wait for remote storage, on a node that has it."""
        self.fetch = fetch
        self.produce = produce
        self.delete_records = delete_records
        self._all = (fetch, produce, delete_records, *remote)

    def check(self, topic_partition: TopicPartition) -> None:
        """Answer those that can be answered now: an offset moved, or the partition changed its role."""
        for purgatory in self._all:
            if purgatory.watched:
                purgatory.check_and_complete(topic_partition)
