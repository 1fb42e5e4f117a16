"""The assignor `uniform` for members that all subscribe to the same topics.

The numbers of partitions of two members differ by at most one, and members keep as many of their partitions
as that allows.

Source: UniformHomogeneousAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import GroupSpec
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.steps import Steps


class _Room(NamedTuple):
    """The number of further partitions that a member gets."""

    member_id: str
    partition_count: int


def assign_homogeneous(group: GroupSpec) -> Steps[Mapping[str, TargetPartitions]]:
    """Return the target assignment of each member."""
    subscribed = next(iter(group.members.values())).subscribed
    unassigned = yield from _unassigned(group, subscribed)
    total = sum(group.partition_counts[topic_id] for topic_id in subscribed)
    quota, extra = divmod(total, len(group.members))
    assignment: dict[str, TargetPartitions] = {}
    unfilled: list[_Room] = []
    for position, (member_id, member) in enumerate(group.members.items()):
        has_extra = extra > 0
        kept, given_up = _keep(member.assigned, subscribed, quota + has_extra)
        unassigned += given_up
        room = quota + has_extra - sum(len(indexes) for indexes in kept.values())
        if room > 0 and has_extra and len(group.members) - position > extra:
            # A later member may already have the extra partition: this one does not need it.
            room -= 1
            has_extra = False
        if room > 0:
            unfilled.append(_Room(member_id, room))
        extra -= has_extra
        assignment[member_id] = kept
        yield None
    return (yield from _fill(assignment, unfilled, unassigned))


def _unassigned(group: GroupSpec, subscribed: Set[UUID]) -> Steps[list[tuple[UUID, int]]]:
    """Return the partitions that are in the previous target of no member."""
    assigned: dict[UUID, set[int]] = {}
    for member in group.members.values():
        for topic_id, indexes in member.assigned.items():
            assigned.setdefault(topic_id, set()).update(indexes)
        yield None
    unassigned = []
    for topic_id in sorted(subscribed):
        free = set(range(group.partition_counts[topic_id])) - assigned.get(topic_id, set())
        unassigned += [(topic_id, index) for index in sorted(free)]
        yield None
    return unassigned


def _keep(
    assigned: TargetPartitions, subscribed: Set[UUID], quota: int
) -> tuple[TargetPartitions, list[tuple[UUID, int]]]:
    """Return at most `quota` of the partitions that are still subscribed to, and the others of these."""
    kept: dict[UUID, frozenset[int]] = {}
    given_up: list[tuple[UUID, int]] = []
    for topic_id, indexes in assigned.items():
        if topic_id not in subscribed:
            continue
        if len(indexes) <= quota:
            kept[topic_id] = indexes
            quota -= len(indexes)
            continue
        ordered = sorted(indexes)
        if quota:
            kept[topic_id] = frozenset(ordered[:quota])
        given_up += [(topic_id, index) for index in ordered[quota:]]
        quota = 0
    return kept, given_up


def _fill(
    assignment: dict[str, TargetPartitions], unfilled: list[_Room], unassigned: list[tuple[UUID, int]]
) -> Steps[Mapping[str, TargetPartitions]]:
    """Assign the unassigned partitions to the members below their quota."""
    start = 0
    for member_id, room in unfilled:
        added: dict[UUID, list[int]] = {}
        for topic_id, index in unassigned[start : start + room]:
            added.setdefault(topic_id, []).append(index)
        start += room
        if added:
            old = assignment[member_id]
            assignment[member_id] = {
                topic_id: old.get(topic_id, frozenset()).union(added.get(topic_id, ()))
                for topic_id in dict.fromkeys((*old, *added))
            }
        yield None
    assert start >= len(unassigned), "partitions were left unassigned"
    return assignment
