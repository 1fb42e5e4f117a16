"""The assignor `range`: each member gets a contiguous range of the partitions of each topic.

Topics with the same number of partitions and the same subscribers are assigned equally, so that a member can
join their partitions. The order of static members is that of their instance ids; dynamic members follow.

Source: RangeAssignor of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import GroupSpec
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.steps import Steps


def assign_ranges(group: GroupSpec) -> Steps[Mapping[str, TargetPartitions]]:
    """Return the target assignment of each member."""
    assignment: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in group.members}
    for subscribed, member_ids in (yield from _subscribers(group)):
        # Equal topics are assigned equally: their ranges are computed once.
        ranges_of: dict[int, list[tuple[str, frozenset[int]]]] = {}
        for topic_id in subscribed:
            partition_count = group.partition_counts[topic_id]
            ranges = ranges_of.get(partition_count)
            if ranges is None:
                ranges = ranges_of[partition_count] = []
                for each in _ranges(partition_count, member_ids):
                    ranges.append(each)
                    yield None
            for member_id, indexes in ranges:
                assignment[member_id][topic_id] = indexes
                yield None
    return assignment


def _ranges(partition_count: int, member_ids: Sequence[str]) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield the members that get partitions of a topic, each with its range."""
    quota, extra = divmod(partition_count, len(member_ids))
    start = 0
    for position, member_id in enumerate(member_ids):
        end = start + quota + (1 if position < extra else 0)
        if start == end:
            return
        yield member_id, frozenset(range(start, end))
        start = end


def _subscribers(group: GroupSpec) -> Steps[Iterable[tuple[Iterable[UUID], Sequence[str]]]]:
    """Return sets of topics, each with their subscribers in the order in which these get partitions."""
    ordered = sorted(group.members, key=lambda each: _order(each, group.members[each].instance_id))
    if group.is_homogeneous:
        return [(group.members[ordered[0]].subscribed, ordered)]
    subscribers: dict[UUID, list[str]] = {}
    for member_id in ordered:
        for topic_id in group.members[member_id].subscribed:
            subscribers.setdefault(topic_id, []).append(member_id)
        yield None
    return [((topic_id,), member_ids) for topic_id, member_ids in subscribers.items()]


def _order(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (instance_id is None, member_id if instance_id is None else instance_id)
