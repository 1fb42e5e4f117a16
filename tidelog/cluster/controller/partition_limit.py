"""The limit of partitions per broker, a share of the process's limit of open files.

A partition that is written to has an open file. Brokers do not report their limits, so the active controller
applies its own to every broker. Internal topics count, but are never rejected (as in KIP-578).

Cost: the number of topics; partitions are counted per broker only if the cluster is near the limit.
Errors: KafkaError POLICY_VIOLATION, Kafka's own code for too many partitions in a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_names import is_internal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId


class PartitionLimit:
    """Counts the partitions of each broker while a request adds some; `per_broker_max` None is no limit."""

    def __init__(self, image: MetadataImage, per_broker_max: int | None) -> None:
        self._image = image
        self._per_broker_max = per_broker_max
        self._new_counts: Counter[BrokerId] = Counter()
        self._total: int | None = None
        self._partition_counts: Counter[BrokerId] | None = None

    def add_replicas(self, topic: str, placements: Iterable[Sequence[BrokerId]]) -> None:
        """Count the replicas of new partitions; `placements` are the brokers of each partition.

        Errors: KafkaError POLICY_VIOLATION if a broker would exceed the limit; no replica is then counted.
        """
        new_counts = self._new_counts + Counter(broker for replicas in placements for broker in replicas)
        if self._per_broker_max is not None and not is_internal(topic):
            self._check_limit(topic, new_counts, self._per_broker_max)
        self._new_counts = new_counts

    def _check_limit(self, topic: str, new_counts: Counter[BrokerId], maximum: int) -> None:
        if self._total is None:
            self._total = sum(len(each.partitions) for each in self._image.topics_by_name.values())
        if self._total + max(new_counts.values(), default=0) <= maximum:
            return  # Not even a broker with a replica of every partition exceeds the limit.
        counts = self._counts_per_broker()
        for broker, count in sorted(new_counts.items()):
            if counts[broker] + count > maximum:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"topic {topic!r}: broker {broker} would have {counts[broker] + count} partitions, the "
                    f"limit is {maximum}, half of its limit of open files; raise that (ulimit -n)",
                )

    def _counts_per_broker(self) -> Counter[BrokerId]:
        if self._partition_counts is None:
            topics = self._image.topics_by_name.values()
            partitions = (partition for topic in topics for partition in topic.partitions.values())
            self._partition_counts = Counter(
                broker for partition in partitions for broker in partition.replicas
            )
        return self._partition_counts
