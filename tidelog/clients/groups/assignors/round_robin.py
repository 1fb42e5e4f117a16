"""Round robin: all partitions of all topics are dealt out like cards to the members in turn.

A member that does not subscribe to the topic of the card is passed over and keeps no claim to
the next one, so unequal subscriptions can end unbalanced, as in Kafka.

Source: RoundRobinAssignor of Apache Kafka.
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


class RoundRobinAssignor:
    """Partitions dealt out one by one."""

    name = "roundrobin"
    rebalance_protocol = RebalanceProtocol.EAGER

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """None: the dealing depends on nothing but the subscriptions."""
        return None

    def assign(
        self, cluster: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """Partitions for every member."""
        assignment: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        ordered = in_assignment_order(members)
        subscribed = [frozenset(members[member_id].topics) for member_id in ordered]
        turn = 0
        for topic in subscribed_topics(cluster, members):
            for partition in range(cluster[topic]):
                while topic not in subscribed[turn]:
                    turn = (turn + 1) % len(ordered)
                assignment[ordered[turn]].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ordered)
        return assignment
