"""Round robin: the partitions of all topics are assigned one by one to the members, in turn.

A member that does not subscribe to the topic of the partition is skipped, and does not get the next one
instead. Different subscriptions can therefore result in an unbalanced assignment, as in Kafka.

Source: RoundRobinAssignor of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.clients.groups.assignors.subscription import (
    UNKNOWN_RACKS,
    PartitionRacks,
    RebalanceProtocol,
    Subscription,
    in_assignment_order,
    subscribed_topics,
)
from tidelog.protocol.ids import TopicPartition


class RoundRobinAssignor:
    """Assigns partitions one by one."""

    name = "roundrobin"
    rebalance_protocol = RebalanceProtocol.EAGER

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """Return None: the assignment depends on the subscriptions only."""
        return None

    def assign(
        self,
        cluster: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: PartitionRacks = UNKNOWN_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member; the racks are not used, as in Kafka."""
        assignment: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        ordered = in_assignment_order(members)
        subscribed = [frozenset(members[member_id].topics) for member_id in ordered]
        position = 0
        for topic in subscribed_topics(cluster, members):
            for partition in range(cluster[topic]):
                while topic not in subscribed[position]:
                    position = (position + 1) % len(ordered)
                assignment[ordered[position]].append(TopicPartition(topic, partition))
                position = (position + 1) % len(ordered)
        return assignment
