"""The assignor `range`: each member gets a contiguous range of the partitions of each topic.

Topics with the same number of partitions and the same subscribers are assigned equally, so that a member can
join their partitions. The order of static members is that of their instance ids; dynamic members follow.

Source: RangeAssignor of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import GroupSpec, TargetPartitions


def assign_ranges(group: GroupSpec) -> Mapping[str, TargetPartitions]:
    """Return the target assignment of each member."""
    assignment: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in group.members}
    for topic_id, member_ids in _subscribers(group).items():
        partition_count = group.partition_counts[topic_id]
        quota, extra = divmod(partition_count, len(member_ids))
        start = 0
        for position, member_id in enumerate(member_ids):
            end = start + quota + (1 if position < extra else 0)
            if start == end:
                break
            assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignment


def _subscribers(group: GroupSpec) -> dict[UUID, list[str]]:
    """Return the subscribers of each topic in the order in which they get partitions."""
    subscribers: dict[UUID, list[str]] = {}
    for member_id in sorted(group.members, key=lambda each: _order(each, group.members[each].instance_id)):
        for topic_id in group.members[member_id].subscribed:
            subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers


def _order(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (instance_id is None, member_id if instance_id is None else instance_id)
