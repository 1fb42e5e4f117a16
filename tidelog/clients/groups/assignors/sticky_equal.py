"""Sticky assignment when all members subscribe to the same topics: by quotas, in linear time.

With P partitions and M members, each member gets P // M partitions, and P % M members get one more. A member
keeps its partitions up to its quota. The remaining partitions are assigned to members below their quotas.

Source: the constrained algorithm of Apache Kafka's AbstractStickyAssignor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tidelog.protocol.ids import TopicPartition


def assign_equally(
    cluster: Mapping[str, int], owned: Mapping[str, list[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member in `owned`, which keeps as many as its quota allows."""
    total = sum(cluster.values())
    quota, extra_members = divmod(total, len(owned))
    assignment: dict[str, list[TopicPartition]] = {}
    for member_id in sorted(owned):
        # By partition first: a member over its quota then loses partitions evenly over its topics.
        kept = sorted(owned[member_id], key=lambda partition: (partition.partition, partition.topic))
        if len(kept) > quota and extra_members > 0:
            extra_members -= 1
            assignment[member_id] = kept[: quota + 1]
        else:
            assignment[member_id] = kept[:quota]
    taken = {partition for partitions in assignment.values() for partition in partitions}
    unassigned = deque(
        partition
        for topic in sorted(cluster)
        for partition in (TopicPartition(topic, index) for index in range(cluster[topic]))
        if partition not in taken
    )
    _fill(unassigned, assignment, quota)
    for member_id in sorted(member_id for member_id in assignment if len(assignment[member_id]) == quota):
        if unassigned:
            assignment[member_id].append(unassigned.popleft())
    assert not unassigned, f"{len(unassigned)} partitions exceed all quotas"
    return assignment


def _fill(
    unassigned: deque[TopicPartition], assignment: Mapping[str, list[TopicPartition]], quota: int
) -> None:
    """Assign partitions to the members below `quota`, one to each in each round."""
    waiting = deque(member_id for member_id in sorted(assignment) if len(assignment[member_id]) < quota)
    while waiting:
        member_id = waiting.popleft()
        assignment[member_id].append(unassigned.popleft())
        if len(assignment[member_id]) < quota:
            waiting.append(member_id)
