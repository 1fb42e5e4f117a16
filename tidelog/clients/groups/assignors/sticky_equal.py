"""Sticky assignment when all members subscribe to the same topics: by quotas, in linear time.

With P partitions and M members, each member gets P // M partitions, and P % M members get one more.

1. A member keeps the partitions that are near it, up to its quota. Without racks, all are near.
2. With racks, members below their quotas get the partitions that are near them.
3. The remaining partitions are assigned to any member below its quota.

Source: the constrained algorithm of Apache Kafka's AbstractStickyAssignor; KIP-881.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from tidelog.clients.groups.assignors.racks import RackMatching
from tidelog.protocol.ids import TopicPartition


class EqualAssignment:
    """An assignment being built; `matching` is None if racks do not matter."""

    def __init__(
        self,
        cluster: Mapping[str, int],
        owned: Mapping[str, list[TopicPartition]],
        matching: RackMatching | None,
    ) -> None:
        self._cluster = cluster
        self._owned = owned
        self._matching = matching
        self._quota, self._extra_members = divmod(sum(cluster.values()), len(owned))
        self._assignment: dict[str, list[TopicPartition]] = {member_id: [] for member_id in sorted(owned)}
        self._below_quota: list[str] = []
        self._at_quota: list[str] = []

    def build(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        self._keep_owned()
        taken = {partition for partitions in self._assignment.values() for partition in partitions}
        unassigned = [
            partition
            for topic in sorted(self._cluster)
            for partition in (TopicPartition(topic, index) for index in range(self._cluster[topic]))
            if partition not in taken
        ]
        if self._matching is not None:
            unassigned = self._assign_within_racks(self._matching, unassigned)
        self._assign_in_turn(unassigned)
        return self._assignment

    def _keep_owned(self) -> None:
        """Let members keep what they owned, as far as their quotas allow."""
        for member_id in self._assignment:
            owned: Iterable[TopicPartition] = self._owned[member_id]
            if self._matching is not None:
                owned = [partition for partition in owned if not self._matching.is_far(member_id, partition)]
            # By partition first: a member over its quota then loses partitions evenly over its topics.
            kept = sorted(owned, key=lambda partition: (partition.partition, partition.topic))
            if len(kept) > self._quota and self._extra_members > 0:
                self._extra_members -= 1
                self._assignment[member_id] = kept[: self._quota + 1]
            else:
                self._assignment[member_id] = kept[: self._quota]
        self._below_quota = [
            member_id for member_id, kept in self._assignment.items() if len(kept) < self._quota
        ]
        self._at_quota = [
            member_id
            for member_id, kept in self._assignment.items()
            if len(kept) == self._quota and self._extra_members > 0
        ]

    def _assign_within_racks(
        self, matching: RackMatching, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Assign partitions to near members in turn; return those that no such member has room for."""
        remaining = []
        turn = 0
        for partition in matching.fewest_members_first(partitions):
            position = matching.next_near(partition, self._below_quota, turn)
            if position is not None:
                turn = self._give_below_quota(position, partition)
                continue
            position = matching.next_near(partition, self._at_quota, 0)
            if position is None:
                remaining.append(partition)
                continue
            self._assignment[self._at_quota.pop(position)].append(partition)
            self._extra_members -= 1
            if self._extra_members == 0:
                self._at_quota.clear()
        return remaining

    def _give_below_quota(self, position: int, partition: TopicPartition) -> int:
        """Assign to the member at `position` of those below the quota; return the next position."""
        member_id = self._below_quota[position]
        self._assignment[member_id].append(partition)
        if len(self._assignment[member_id]) < self._quota:
            position += 1
        else:
            del self._below_quota[position]
            if self._extra_members > 0:
                self._at_quota.append(member_id)
        return position % len(self._below_quota) if self._below_quota else 0

    def _assign_in_turn(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign one partition after the other to the members below their quotas."""
        below_quota, at_quota = deque(self._below_quota), deque(self._at_quota)
        for partition in partitions:
            if not below_quota:
                self._assignment[at_quota.popleft()].append(partition)
                continue
            member_id = below_quota.popleft()
            self._assignment[member_id].append(partition)
            (below_quota if len(self._assignment[member_id]) < self._quota else at_quota).append(member_id)
