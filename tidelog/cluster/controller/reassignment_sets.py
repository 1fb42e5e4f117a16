"""The sets of replicas of a reassignment: begun, finished, and taken back.

While one is under way `replicas` holds the new ones first and then those that are to go, so the
partition has all of them. It ends when the in-sync set holds what it must; then those that are
to go are dropped from both.

Source: KIP-455; PartitionReassignmentReplicas and PartitionReassignmentRevert of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tidelog.cluster.image import PartitionImage
from tidelog.protocol.ids import BrokerId

Replicas: TypeAlias = tuple[BrokerId, ...]


class ReplicaSets(NamedTuple):
    """The replicas of a partition, and which of them a reassignment removes and adds."""

    replicas: Replicas
    removing: Replicas = ()
    adding: Replicas = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.removing or self.adding)


class Finished(NamedTuple):
    """The replicas and ISR of a partition after its reassignment."""

    replicas: Replicas
    isr: Replicas


class Reverted(NamedTuple):
    """What a partition has once its reassignment is taken back.

    `is_unclean`: every in-sync replica was being added, so the new leader may lack records.
    """

    replicas: Replicas
    isr: Replicas
    is_unclean: bool


def is_reassigning(partition: PartitionImage) -> bool:
    """Whether a reassignment of `partition` is under way."""
    return bool(partition.removing_replicas or partition.adding_replicas)


def towards(partition: PartitionImage, target: Replicas) -> ReplicaSets:
    """Return the sets with which a reassignment of `partition` to `target` begins; it replaces a pending one.

    What an unfinished reassignment was adding is still being added if `target` has it, and goes
    otherwise. (Kafka 4.3 keeps the old sets where the new ones are empty; a reassignment back to
    where it came from then waits for ever for a replica that it removes.)
    """
    before = _without(partition.replicas, partition.adding_replicas)
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(before)))
    return ReplicaSets((*target, *removing), removing, adding)


def finished(sets: ReplicaSets, isr: Sequence[BrokerId]) -> Finished | None:
    """How the reassignment ends with the in-sync set `isr`; None when it cannot end yet."""
    if not sets.is_reassigning:
        return None
    remaining_isr = _without(isr, sets.removing)
    remaining = _without(sets.replicas, sets.removing)
    if not remaining or (sets.removing and not remaining_isr):
        return None
    if not set(sets.adding) <= set(remaining_isr):
        return None
    shrinks = len(sets.adding) < len(sets.removing)
    if shrinks and not set(remaining) <= set(remaining_isr):
        return None
    return Finished(remaining, remaining_isr)


def reverted(partition: PartitionImage) -> Reverted | None:
    """How the reassignment of `partition` is taken back; None when every replica was being added."""
    replicas = _without(partition.replicas, partition.adding_replicas)
    if not replicas:
        return None
    isr = _without(partition.isr, partition.adding_replicas)
    return Reverted(replicas, isr or replicas[:1], is_unclean=not isr)


def _without(replicas: Sequence[BrokerId], removed: Sequence[BrokerId]) -> Replicas:
    return tuple(replica for replica in replicas if replica not in removed)
