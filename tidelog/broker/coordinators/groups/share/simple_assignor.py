"""The assignor `simple`: all members of a share group share its partitions evenly.

If there are at least as many partitions as members, a partition has one member; otherwise it has as many
members as needed so that each member has a partition. The numbers of partitions of two members differ by at
most one, and members keep their partitions as far as that allows. If all members subscribe to the same
topics, this applies to all partitions together, else to each topic separately.

Source: KIP-932, SimpleAssignor of Apache Kafka 4.3. Where Kafka's choice depends on the order of a hash
table, the order here is that of topics, partitions and members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.steps import Steps

_Partition: TypeAlias = tuple[UUID, int]


class ShareMemberSpec(NamedTuple):
    """The topics that a member subscribes to, and its target until now."""

    subscribed: frozenset[UUID]
    target: TargetPartitions


def assign(
    members: Mapping[str, ShareMemberSpec], assignable: Mapping[UUID, frozenset[int]]
) -> Steps[dict[str, TargetPartitions]]:
    """Return the target of each member, from the assignable partitions of its topics.

    The arguments must not change meanwhile.
    """
    distinct = {member.subscribed for member in members.values()}
    assigned: dict[str, list[_Partition]] = {member_id: [] for member_id in members}
    if len(distinct) == 1:
        yield from _shared(distinct.pop(), members, assignable, assigned)
    else:
        for topic_id in sorted(frozenset().union(*distinct)):
            subscribers = {
                member_id: member for member_id, member in members.items() if topic_id in member.subscribed
            }
            yield from _shared({topic_id}, subscribers, assignable, assigned)
    targets = {}
    for member_id, partitions in assigned.items():
        targets[member_id] = _by_topic(partitions)
        yield None
    return targets


def _shared(
    topic_ids: Set[UUID],
    members: Mapping[str, ShareMemberSpec],
    assignable: Mapping[UUID, frozenset[int]],
    assigned: Mapping[str, list[_Partition]],
) -> Steps[None]:
    """Add to `assigned` the partitions of topics for each of `members`, their subscribers."""
    members_of: dict[_Partition, list[str]] = {}
    for topic_id in sorted(topic_ids):
        for index in sorted(assignable.get(topic_id, ())):
            members_of[topic_id, index] = []
            yield None
    yield from _Sharing(members_of, members).assign_to(assigned)


def _by_topic(partitions: Sequence[_Partition]) -> TargetPartitions:
    topics: dict[UUID, set[int]] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in topics.items()}


class _Sharing:
    """Partitions and the members that share them.

    `_wanted` is the number of partitions that each member should have, and `_members_per_partition` the
    number of members that each partition should have.
    """

    def __init__(
        self, members_of: dict[_Partition, list[str]], members: Mapping[str, ShareMemberSpec]
    ) -> None:
        self._members_of = partitions = members_of
        self._count: dict[str, int] = dict.fromkeys(members, 0)
        self._members_per_partition = -(-len(members) // len(partitions)) if partitions else 0
        total = self._members_per_partition * len(partitions)
        self._wanted = {
            member_id: _ceiling_share(total, number + 1, len(members))
            - _ceiling_share(total, number, len(members))
            for number, member_id in enumerate(members)
        }
        self._members = members

    def assign_to(self, assigned: Mapping[str, list[_Partition]]) -> Steps[None]:
        """Add the partitions of each member to `assigned`."""
        yield from self._read_targets()
        for partition in self._members_of:
            yield from self._release_from_partition(partition)
            yield None
        for partition in self._members_of:
            yield from self._release_from_members(partition)
            yield None
        yield from self._assign_remaining()
        for partition, member_ids in self._members_of.items():
            for member_id in member_ids:
                assigned[member_id].append(partition)
                yield None

    def _read_targets(self) -> Steps[None]:
        """Read the members that have each partition until now."""
        for member_id, member in self._members.items():
            for topic_id, indexes in member.target.items():
                for index in sorted(indexes):
                    if (topic_id, index) in self._members_of:
                        self._members_of[topic_id, index].append(member_id)
                        self._count[member_id] += 1
                    yield None

    def _release_from_partition(self, partition: _Partition) -> Steps[None]:
        """Remove members from a partition that has too many, first those with too many partitions."""
        members = self._members_of[partition]
        while len(members) > self._members_per_partition:
            excess = [each for each in members if self._count[each] > self._wanted[each]]
            self._release(partition, (excess or members)[0])
            yield None

    def _release_from_members(self, partition: _Partition) -> Steps[None]:
        """Remove the members of a partition that have too many partitions."""
        for member_id in list(self._members_of[partition]):
            if self._count[member_id] > self._wanted[member_id]:
                self._release(partition, member_id)
            yield None

    def _release(self, partition: _Partition, member_id: str) -> None:
        self._members_of[partition].remove(member_id)
        self._count[member_id] -= 1

    def _assign_remaining(self) -> Steps[None]:
        """Add members that have too few partitions to the partitions that have too few members.

        A member that has the partition already is skipped. If all have it, the partition gets no more.
        """
        waiting = [each for each, count in self._count.items() if count < self._wanted[each]]
        position = 0
        for members in self._members_of.values():
            skipped = 0
            yield None
            while waiting and len(members) < self._members_per_partition and skipped < len(waiting):
                yield None
                position %= len(waiting)
                member_id = waiting[position]
                if member_id in members:
                    skipped += 1
                    position += 1
                    continue
                members.append(member_id)
                self._count[member_id] += 1
                skipped = 0
                if self._count[member_id] >= self._wanted[member_id]:
                    waiting.pop(position)
                else:
                    position += 1


def _ceiling_share(total: int, parts: int, of_parts: int) -> int:
    """Return `total * parts / of_parts`, rounded up."""
    return -(-total * parts // of_parts)
