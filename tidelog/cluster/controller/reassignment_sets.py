"""The replica sets of a partition when a reassignment begins, is completed or is reverted.

During a reassignment `replicas` contains the new replicas first and then those that are removed. It is
completed when the required replicas are in sync; the removed ones then leave the replicas and the ISR.

Source: KIP-455; PartitionReassignmentReplicas and PartitionReassignmentRevert of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tidelog.cluster.image import PartitionImage
from tidelog.protocol.ids import BrokerId

Replicas: TypeAlias = tuple[BrokerId, ...]


class ReplicaSets(NamedTuple):
    """The replicas of a partition, and those of them that a reassignment removes and adds."""

    replicas: Replicas
    removing: Replicas = ()
    adding: Replicas = ()

    @property
    def is_reassigning(self) -> bool:
        """Whether there is an ongoing reassignment."""
        return bool(self.removing or self.adding)


class CompletedReassignment(NamedTuple):
    """The replicas and ISR of a partition after its reassignment."""

    replicas: Replicas
    isr: Replicas


class RevertedReassignment(NamedTuple):
    """The replicas and ISR of a partition after its reassignment is reverted.

    `is_unclean`: whether every in-sync replica was being added, so that the new leader may lack records.
    """

    replicas: Replicas
    isr: Replicas
    is_unclean: bool


def is_reassigning(partition: PartitionImage) -> bool:
    """Return whether `partition` has an ongoing reassignment."""
    return bool(partition.removing_replicas or partition.adding_replicas)


def begin_reassignment(partition: PartitionImage, target: Replicas) -> ReplicaSets:
    """Return the sets for a new reassignment of `partition` to `target`, which replaces an ongoing one.

    A replica that the ongoing reassignment is adding is still added if `target` contains it, and removed
    otherwise. (Kafka 4.3 keeps the old sets where the new ones are empty; a reassignment to the original
    replicas then waits forever for a replica that it removes.)
    """
    before = _without(partition.replicas, partition.adding_replicas)
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(before)))
    return ReplicaSets((*target, *removing), removing, adding)


def complete_reassignment(sets: ReplicaSets, isr: Sequence[BrokerId]) -> CompletedReassignment | None:
    """Return the partition after its reassignment with the ISR `isr`; None if it cannot be completed yet."""
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
    return CompletedReassignment(remaining, remaining_isr)


def revert_reassignment(partition: PartitionImage) -> RevertedReassignment | None:
    """Return `partition` after its reassignment is reverted; None if every replica was being added."""
    replicas = _without(partition.replicas, partition.adding_replicas)
    if not replicas:
        return None
    isr = _without(partition.isr, partition.adding_replicas)
    return RevertedReassignment(replicas, isr or replicas[:1], is_unclean=not isr)


def _without(replicas: Sequence[BrokerId], removed: Sequence[BrokerId]) -> Replicas:
    return tuple(replica for replica in replicas if replica not in removed)
