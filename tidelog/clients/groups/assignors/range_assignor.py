"""Range: the partitions of each topic are divided into consecutive ranges, one for each subscribed member.

The first members get one more partition if the division has a remainder. Topics with the same number of
partitions and the same subscribers are therefore co-partitioned: partition 3 of both goes to the same member.

If members have racks, each member first gets the partitions that have a replica in its rack, as far as its
share allows (KIP-881). Topics stay co-partitioned. The remaining partitions are assigned as without racks.

Source: RangeAssignor of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, islice

from tidelog.clients.groups.assignors.racks import RackMatching
from tidelog.clients.groups.assignors.subscription import (
    UNKNOWN_RACKS,
    PartitionRacks,
    RebalanceProtocol,
    Subscription,
    in_assignment_order,
    subscribed_topics,
)
from tidelog.protocol.ids import TopicPartition


class RangeAssignor:
    """Assigns consecutive ranges of each topic."""

    name = "range"
    rebalance_protocol = RebalanceProtocol.EAGER

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """Return None: the ranges depend on the subscriptions only."""
        return None

    def assign(
        self,
        cluster: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: PartitionRacks = UNKNOWN_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        ordered = in_assignment_order(members)
        topics = [
            _TopicRanges(
                topic,
                cluster[topic],
                {
                    member_id: members[member_id]
                    for member_id in ordered
                    if topic in members[member_id].topics
                },
                racks,
            )
            for topic in subscribed_topics(cluster, members)
        ]
        if any(topic.matching.is_useful() for topic in topics):
            _assign_within_racks(topics)
        for topic in topics:
            topic.assign_ranges(lambda member_id, partition: True)
        return {
            member_id: sorted(
                partition for topic in topics for partition in topic.assigned.get(member_id, ())
            )
            for member_id in members
        }


class _TopicRanges:
    """The partitions of one topic while they are assigned to its subscribers, which are in order."""

    def __init__(
        self, topic: str, count: int, subscribers: Mapping[str, Subscription], racks: PartitionRacks
    ) -> None:
        self.partitions = [TopicPartition(topic, index) for index in range(count)]
        self.subscribers = tuple(subscribers)
        self.matching = RackMatching(subscribers, self.partitions, racks)
        self.assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscribers}
        self._unassigned = dict.fromkeys(self.partitions)
        self._share, self._remainder = divmod(count, len(subscribers))

    def room(self, member_id: str) -> int:
        """Return how many more partitions the member may get."""
        share = self._share + (1 if self._remainder > 0 else 0)
        return max(0, share - len(self.assigned[member_id]))

    def give(self, member_id: str, partitions: Sequence[TopicPartition]) -> None:
        """Assign partitions to a member that has room for them."""
        self.assigned[member_id] += partitions
        if len(self.assigned[member_id]) > self._share:
            self._remainder -= 1
        for partition in partitions:
            del self._unassigned[partition]

    def assign_ranges(self, is_allowed: Callable[[str, TopicPartition], bool]) -> None:
        """Give each subscriber the first unassigned partitions that it may have."""
        for member_id in self.subscribers:
            allowed = (partition for partition in self._unassigned if is_allowed(member_id, partition))
            partitions = list(islice(allowed, self.room(member_id)))
            if partitions:
                self.give(member_id, partitions)

    def is_near(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the partition is near the member, or the member has no rack."""
        return not self.matching.is_far(member_id, partition)


def _assign_within_racks(topics: Sequence[_TopicRanges]) -> None:
    """Assign the partitions that are near a member with room, topics that are co-partitioned together."""

    def kind(topic: _TopicRanges) -> tuple[tuple[str, ...], int]:
        return topic.subscribers, len(topic.partitions)

    for _, group in groupby(sorted(topics, key=kind), key=kind):
        together = list(group)
        if len(together) > 1:
            _assign_co_partitioned(together)
        elif together[0].matching.is_useful():
            together[0].assign_ranges(together[0].is_near)


def _assign_co_partitioned(topics: Sequence[_TopicRanges]) -> None:
    """Assign partition i of all topics to the first member that is near all of them and has room."""
    for same_index in zip(*(topic.partitions for topic in topics), strict=True):
        for member_id in topics[0].subscribers:
            if all(
                topic.room(member_id) > 0 and topic.is_near(member_id, partition)
                for topic, partition in zip(topics, same_index, strict=True)
            ):
                for topic, partition in zip(topics, same_index, strict=True):
                    topic.give(member_id, [partition])
                break
