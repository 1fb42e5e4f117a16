"""How many partitions a broker may hold: a share of the files that its process may open.

A partition that is written to holds a descriptor. Brokers do not report how many they may have, so that the
active controller takes every broker to have its own limit. Internal topics count, and are never refused, as
in KIP-578.

Cost: the sum over the topics; only a cluster that is near the limit is looked at partition by partition.
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
    """The partitions of each broker while one request is worked off; `per_broker_max` None is no limit."""

    def __init__(self, image: MetadataImage, per_broker_max: int | None) -> None:
        self._image = image
        self._per_broker_max = per_broker_max
        self._added: Counter[BrokerId] = Counter()
        self._total: int | None = None
        self._held: Counter[BrokerId] | None = None

    def take(self, topic: str, placements: Iterable[Sequence[BrokerId]]) -> None:
        """Count the brokers of new replicas, or raise POLICY_VIOLATION and count none."""
        added = self._added + Counter(broker for replicas in placements for broker in replicas)
        if self._per_broker_max is not None and not is_internal(topic):
            self._require_room(topic, added, self._per_broker_max)
        self._added = added

    def _require_room(self, topic: str, added: Counter[BrokerId], maximum: int) -> None:
        if self._total is None:
            self._total = sum(len(each.partitions) for each in self._image.topics_by_name.values())
        if self._total + max(added.values(), default=0) <= maximum:
            return  # not even a broker that has a replica of everything
        held = self._counted()
        for broker, count in sorted(added.items()):
            if held[broker] + count > maximum:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"topic {topic!r}: broker {broker} would hold {held[broker] + count} partitions, allowed "
                    f"are {maximum}, half of the files that it may open; raise that limit (ulimit -n)",
                )

    def _counted(self) -> Counter[BrokerId]:
        if self._held is None:
            topics = self._image.topics_by_name.values()
            partitions = (partition for topic in topics for partition in topic.partitions.values())
            self._held = Counter(broker for partition in partitions for broker in partition.replicas)
        return self._held
