"""Where the replicas of new partitions go: over racks first, then over the brokers of a rack.

Racks form a ring, and so do the brokers of each rack. Every partition begins one rack
further. Its leader is the next broker in the ring of the first rack that has an unfenced one;
followers come from the racks in turn, each the broker that got the fewest replicas so far.
Fenced brokers never lead and follow only where a rack has no other left. After as many
partitions as there are unfenced brokers the rings are shuffled, so that the same brokers do
not always share partitions.

So with racks of equal size every rack and every broker leads equally often, and no two
replicas share a rack while another rack has none.

Errors: KafkaError INVALID_REPLICATION_FACTOR. Source: the aims are those of Apache Kafka's
StripedReplicaPlacer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId

T = TypeVar("T")

RandomBelow: TypeAlias = Callable[[int], int]
"""A source of chance: a number from 0 to the given bound - 1."""


class UsableBroker(NamedTuple):
    """A broker that replicas can be placed on; brokers without a rack share one."""

    id: BrokerId
    rack: str | None
    fenced: bool


class _Rack:
    """The brokers of one rack: a ring of unfenced ones, whose next leads, and the fenced ones."""

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
    def __init__(self, brokers: list[UsableBroker], random_below: RandomBelow) -> None:
        racks: dict[str | None, _Rack] = {}
        for broker in sorted(brokers, key=lambda broker: broker.id):
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).append(broker.id)
        self._racks = list(racks.values())
        self._random_below = random_below
        self._replica_counts = {broker.id: 0 for broker in brokers}
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._placed = 0
        self._shuffle()

    def place(self, replication_factor: int) -> tuple[BrokerId, ...]:
        if self._placed == self._unfenced_count:
            self._shuffle()
            self._placed = 0
        start = self._placed % len(self._racks)
        self._placed += 1
        turns = self._racks[start:] + self._racks[:start]
        leader_rack = next(rack for rack in turns if rack.unfenced)
        chosen = [leader_rack.take_leader()]
        turns.remove(leader_rack)
        turns.append(leader_rack)
        while len(chosen) < replication_factor:
            rack = turns.pop(0)
            follower = rack.take_follower(chosen, self._replica_counts)
            if follower is not None:
                chosen.append(follower)
                turns.append(rack)
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
    """Return the replicas of each new partition, the leader first; each is chosen when it is taken."""
    usable = list(brokers)
    if replication_factor <= 0:
        raise _refused(f"replication factor {replication_factor} is not positive")
    if replication_factor > len(usable):
        raise _refused(
            f"replication factor {replication_factor} needs more than the {len(usable)} broker(s) there are"
        )
    if all(broker.fenced for broker in usable):
        raise _refused("all brokers are fenced")
    placer = _Placer(usable, random_below)
    return (placer.place(replication_factor) for _ in range(partition_count))


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)


def _shuffle(items: list[T], random_below: RandomBelow) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random_below(last + 1)
        items[last], items[other] = items[other], items[last]
