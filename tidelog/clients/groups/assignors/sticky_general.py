"""Sticky assignment when members subscribe to different topics: greedy, then improved by single moves.

1. Members keep the partitions that they owned and still subscribe to, if these are near (KIP-881).
2. Each unassigned partition goes to the least loaded subscriber, a near one if possible. Partitions with few
   subscribers are first.
3. While a partition's owner has at least two partitions more than another subscriber, the partition moves: to
   its former owner if that improves the balance, otherwise to the least loaded subscriber, a near one if
   possible.

Every move decreases the sum of the squared loads, so the third step ends. The result is balanced in Kafka's
sense: no single move makes two members more equal.

Source: the general algorithm of Apache Kafka's AbstractStickyAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.clients.groups.assignors.racks import RackMatching
from tidelog.clients.groups.assignors.sticky_claims import Ownership
from tidelog.clients.groups.assignors.subscription import Subscription
from tidelog.protocol.ids import TopicPartition


class GeneralAssignment:
    """An assignment being built.

    Invariant: `_holder[partition] == member` exactly when `partition in assigned[member]`.
    """

    def __init__(
        self,
        cluster: Mapping[str, int],
        members: Mapping[str, Subscription],
        ownership: Ownership,
        matching: RackMatching | None,
    ) -> None:
        self._matching = matching
        self._subscribers: dict[str, list[str]] = {
            topic: [member_id for member_id in sorted(members) if topic in members[member_id].topics]
            for topic in sorted(cluster)
        }
        self._partitions = [
            TopicPartition(topic, index)
            for topic in sorted(cluster, key=lambda name: (len(self._subscribers[name]), name))
            for index in range(cluster[topic])
        ]
        # Dictionaries instead of sets, because their order is the same in every run.
        self.assigned: dict[str, dict[TopicPartition, None]] = {
            member_id: dict.fromkeys(
                partition for partition in ownership.owned[member_id] if self._is_near(member_id, partition)
            )
            for member_id in sorted(members)
        }
        self._holder = {
            partition: member_id for member_id, held in self.assigned.items() for partition in held
        }
        self._former_owners = ownership.runner_up
        self._origin: dict[TopicPartition, str] = {}

    def build(self) -> dict[str, list[TopicPartition]]:
        """Run the three steps and return the assignment."""
        unassigned = [partition for partition in self._partitions if partition not in self._holder]
        for partition in unassigned:
            nearest = self._least_loaded_near(partition)
            self._put(partition, self._least_loaded(partition.topic) if nearest is None else nearest)
        self._origin = dict(self._holder)
        # Move the newly assigned partitions first: no member has to revoke them.
        self._balance(unassigned)
        self._balance(self._partitions)
        return {member_id: list(partitions) for member_id, partitions in self.assigned.items()}

    def _balance(self, movable: list[TopicPartition]) -> None:
        moved = True
        while moved:
            moved = False
            for partition in movable:
                moved |= self._improve(partition)

    def _improve(self, partition: TopicPartition) -> bool:
        """Move `partition`, or another one of its topic, if that makes the loads more equal."""
        holder = self._holder[partition]
        former = self._former_owners.get(partition)
        if former in self._subscribers[partition.topic] and self._is_heavier(holder, former):
            self._move(partition, former)
            return True
        lightest = self._least_loaded(partition.topic)
        if not self._is_heavier(holder, lightest):
            return False
        nearest = self._least_loaded_near(partition)
        if nearest is not None and self._is_heavier(holder, nearest):
            self._move(partition, nearest)
            return True
        self._move(self._partition_from(lightest, holder, partition), lightest)
        return True

    def _is_heavier(self, holder: str, other: str) -> bool:
        return len(self.assigned[holder]) > len(self.assigned[other]) + 1

    def _least_loaded(self, topic: str) -> str:
        return min(self._subscribers[topic], key=lambda member_id: len(self.assigned[member_id]))

    def _is_near(self, member_id: str, partition: TopicPartition) -> bool:
        return self._matching is None or not self._matching.is_far(member_id, partition)

    def _least_loaded_near(self, partition: TopicPartition) -> str | None:
        """Return the least loaded subscriber near the partition; None if none is, or racks do not matter."""
        if self._matching is None:
            return None
        near = [
            member_id
            for member_id in self._subscribers[partition.topic]
            if not self._matching.is_far(member_id, partition)
        ]
        return min(near, key=lambda member_id: len(self.assigned[member_id]), default=None)

    def _partition_from(self, origin: str, holder: str, partition: TopicPartition) -> TopicPartition:
        """Return a partition of the topic that moved from `origin` to `holder`; otherwise `partition`.

        Moving it back avoids that two members only exchange partitions.
        """
        for held in self.assigned[holder]:
            if held.topic == partition.topic and self._origin[held] == origin:
                return held
        return partition

    def _move(self, partition: TopicPartition, member_id: str) -> None:
        del self.assigned[self._holder[partition]][partition]
        self._put(partition, member_id)

    def _put(self, partition: TopicPartition, member_id: str) -> None:
        self.assigned[member_id][partition] = None
        self._holder[partition] = member_id
