"""Placement of the replicas of new partitions, striped over racks and over the brokers of each rack.

Racks form a ring, and so do the brokers of each rack. Every partition starts one rack further than the one
before it. Its leader is the next broker in the ring of the first rack with an unfenced broker; its followers
come from the next racks, from each the broker with the fewest replicas so far. Fenced brokers never lead, and
follow only if a rack has no other broker left. The rings are shuffled after as many partitions as there are
unfenced brokers, so that partitions are not always shared by the same brokers.

With racks of equal size every rack and every broker leads equally often, and no two replicas of a partition
share a rack while another rack has none.

Errors: KafkaError INVALID_REPLICATION_FACTOR. Source: the goals of Apache Kafka's StripedReplicaPlacer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId

T = TypeVar("T")

RandomBelow: TypeAlias = Callable[[int], int]
"""Returns a random number from 0 to the argument - 1."""


class UsableBroker(NamedTuple):
    """A broker on which replicas can be placed; brokers without a rack form one rack."""

    id: BrokerId
    rack: str | None
    fenced: bool


class _Rack:
    """The brokers of one rack: a ring of unfenced ones with the next leader, and the fenced ones."""

    def __init__(self) -> None:
        self.unfenced: list[BrokerId] = []
        self.fenced: list[BrokerId] = []
        self._next_leader = 0

    def take_leader(self) -> BrokerId:
        leader = self.unfenced[self._next_leader % len(self.unfenced)]
        self._next_leader += 1
        return leader

    def take_follower(self, chosen: list[BrokerId], replica_counts: dict[BrokerId, int]) -> BrokerId | None:
        for brokers in (self.unfenced, self.fenced):
            free = [broker for broker in self._from_next(brokers) if broker not in chosen]
            if free:
                return min(free, key=replica_counts.__getitem__)
        return None

    def _from_next(self, brokers: list[BrokerId]) -> list[BrokerId]:
        start = self._next_leader % len(brokers) if brokers else 0
        return brokers[start:] + brokers[:start]

    def shuffle(self, random_below: RandomBelow) -> None:
        self._next_leader = 0
        _shuffle(self.unfenced, random_below)
        _shuffle(self.fenced, random_below)


class _Placer:
    """Places the replicas of one partition after another."""

    def __init__(self, brokers: list[UsableBroker], random_below: RandomBelow) -> None:
        racks: dict[str | None, _Rack] = {}
        for broker in sorted(brokers, key=lambda broker: broker.id):
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).append(broker.id)
        self._racks = list(racks.values())
        self._random_below = random_below
        self._replica_counts = {broker.id: 0 for broker in brokers}
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._placed_count = 0
        self._shuffle()

    def place(self, replication_factor: int) -> tuple[BrokerId, ...]:
        if self._placed_count == self._unfenced_count:
            self._shuffle()
            self._placed_count = 0
        start = self._placed_count % len(self._racks)
        self._placed_count += 1
        racks = self._racks[start:] + self._racks[:start]
        leader_rack = next(rack for rack in racks if rack.unfenced)
        chosen = [leader_rack.take_leader()]
        racks.remove(leader_rack)
        racks.append(leader_rack)
        while len(chosen) < replication_factor:
            rack = racks.pop(0)
            follower = rack.take_follower(chosen, self._replica_counts)
            if follower is not None:
                chosen.append(follower)
                racks.append(rack)
        for broker in chosen:
            self._replica_counts[broker] += 1
        return tuple(chosen)

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random_below)
        for rack in self._racks:
            rack.shuffle(self._random_below)


def place_replicas(
    brokers: Iterable[UsableBroker],
    partition_count: int,
    replication_factor: int,
    random_below: RandomBelow,
) -> Iterator[tuple[BrokerId, ...]]:
    """Return an iterator over the replicas of each new partition, the leader first."""
    usable = list(brokers)
    if replication_factor <= 0:
        raise _error(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if replication_factor > len(usable):
        raise _error(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered."
        )
    if all(broker.fenced for broker in usable):
        raise _error("All brokers are currently fenced.")
    placer = _Placer(usable, random_below)
    return (placer.place(replication_factor) for _ in range(partition_count))


def _error(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)


def _shuffle(items: list[T], random_below: RandomBelow) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random_below(last + 1)
        items[last], items[other] = items[other], items[last]
