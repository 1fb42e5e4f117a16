"""Range: the partitions of each topic are divided into consecutive ranges, one for each subscribed member.

The first members get one more partition if the division has a remainder. Topics with the same number of
partitions and the same subscribers are therefore co-partitioned: partition 3 of both goes to the same member.

Source: RangeAssignor of Apache Kafka, without rack matching (KIP-881).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.clients.groups.assignors.subscription import (
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
        self, cluster: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        assignment: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        ordered = in_assignment_order(members)
        for topic in subscribed_topics(cluster, members):
            subscribers = [member_id for member_id in ordered if topic in members[member_id].topics]
            share, rest = divmod(cluster[topic], len(subscribers))
            start = 0
            for position, member_id in enumerate(subscribers):
                end = start + share + (1 if position < rest else 0)
                assignment[member_id] += [TopicPartition(topic, index) for index in range(start, end)]
                start = end
        return assignment
