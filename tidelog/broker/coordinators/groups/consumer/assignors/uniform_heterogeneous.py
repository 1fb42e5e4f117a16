"""The assignor `uniform` for members that subscribe to different topics.

Members keep the partitions of the topics that they still subscribe to. Unassigned partitions go to the
subscriber with the fewest. Then partitions of each topic move from its subscriber with the most partitions to
the one with the fewest, until no move improves the balance, in at most `ROUNDS_MAX` rounds over the topics.

Source: the rules of UniformHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1; among members with equally
many partitions, Kafka may choose another one.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.assignors.group_spec import GroupSpec
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.protocol.steps import Steps

ROUNDS_MAX: Final = 16


def assign_heterogeneous(group: GroupSpec) -> Steps[Mapping[str, TargetPartitions]]:
    """Return the target assignment of each member."""
    balancer = _Balancer(group)
    yield from balancer.read_subscriptions()
    yield from balancer.keep_assigned()
    yield from balancer.assign_remaining()
    yield from balancer.balance()
    return (yield from balancer.assignment())


class _Balancer:
    """The assignment while it is computed: the owner of each partition, the load of each member."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._member_ids = list(group.members)
        self._loads = [0] * len(self._member_ids)
        self._subscribers: dict[UUID, list[int]] = {}
        self._owners: dict[UUID, list[int | None]] = {}
        self._topics: list[UUID] = []

    def read_subscriptions(self) -> Steps[None]:
        """Read the subscribers of each topic."""
        for position, member in enumerate(self._group.members.values()):
            for topic_id in member.subscribed:
                self._subscribers.setdefault(topic_id, []).append(position)
            yield None
        for topic_id in self._subscribers:
            self._owners[topic_id] = [None] * self._group.partition_counts[topic_id]
        yield None
        # Topics with many partitions for each subscriber first: they decide the balance.
        self._topics = sorted(self._subscribers, key=self._order)
        yield None

    def _order(self, topic_id: UUID) -> tuple[float, int, UUID]:
        count = len(self._subscribers[topic_id])
        return (-self._group.partition_counts[topic_id] / count, count, topic_id)

    def keep_assigned(self) -> Steps[None]:
        """Let members keep the partitions of their topics."""
        for position, member in enumerate(self._group.members.values()):
            for topic_id, indexes in member.assigned.items():
                if topic_id in member.subscribed:
                    owners = self._owners[topic_id]
                    for index in indexes:
                        if index < len(owners) and owners[index] is None:
                            owners[index] = position
                            self._loads[position] += 1
                    yield None

    def assign_remaining(self) -> Steps[None]:
        """Assign each unassigned partition to the subscriber with the fewest partitions."""
        for topic_id in self._topics:
            owners = self._owners[topic_id]
            least = [(self._loads[position], position) for position in self._subscribers[topic_id]]
            heapq.heapify(least)
            for index, owner in enumerate(owners):
                if owner is None:
                    load, position = least[0]
                    heapq.heapreplace(least, (load + 1, position))
                    owners[index] = position
                    self._loads[position] += 1
                    yield None
            yield None

    def balance(self) -> Steps[None]:
        """Move partitions until a round over all topics has moved none."""
        for _ in range(ROUNDS_MAX):
            moved = 0
            for topic_id in self._topics:
                moved += yield from self._balance_topic(topic_id)
                yield None
            if not moved:
                return

    def _balance_topic(self, topic_id: UUID) -> Steps[int]:
        """Move partitions of one topic between its subscribers. Return their number."""
        subscribers = self._subscribers[topic_id]
        loads = self._loads
        if max(loads[each] for each in subscribers) - min(loads[each] for each in subscribers) <= 1:
            return 0
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for index, owner in enumerate(owners):
            assert owner is not None, (topic_id, index)
            owned.setdefault(owner, []).append(index)
        least = [(loads[position], position) for position in subscribers]
        most = [(-loads[position], position) for position in owned]
        heapq.heapify(least)
        heapq.heapify(most)
        moved = 0
        while most:
            load, giver = heapq.heappop(most)
            if -load != loads[giver] or not owned[giver]:
                continue
            receiver = _current_first(least, loads)
            if loads[giver] - loads[receiver] <= 1:
                break
            index = owned[giver].pop()
            owned.setdefault(receiver, []).append(index)
            owners[index] = receiver
            loads[giver] -= 1
            loads[receiver] += 1
            moved += 1
            for position in (giver, receiver):
                heapq.heappush(least, (loads[position], position))
                heapq.heappush(most, (-loads[position], position))
            yield None
        return moved

    def assignment(self) -> Steps[Mapping[str, TargetPartitions]]:
        """Return the partitions of each member."""
        partitions: list[dict[UUID, frozenset[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            owned: dict[int, list[int]] = {}
            for index, owner in enumerate(owners):
                assert owner is not None, (topic_id, index)
                owned.setdefault(owner, []).append(index)
            for owner, indexes in owned.items():
                partitions[owner][topic_id] = frozenset(indexes)
            yield None
        return dict(zip(self._member_ids, partitions, strict=True))


def _current_first(least: list[tuple[int, int]], loads: list[int]) -> int:
    """Return the first member of the heap, after outdated entries were removed."""
    while least[0][0] != loads[least[0][1]]:
        heapq.heappop(least)
    return least[0][1]
