"""Cooperative sticky: the sticky assignment in two rebalances, without interrupting consumption.

Members keep their partitions while they join. A partition that moves to another member has no owner after the
first rebalance: its old owner revokes it and joins again. The second rebalance assigns it to the new owner.
Therefore no partition ever has two owners.

The user data is the generation as int32, for brokers and members that do not support subscription version 2,
which has a field for the generation.

Source: CooperativeStickyAssignor of Apache Kafka, KIP-429, KIP-792.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.clients.groups.assignors.sticky import assign_sticky
from tidelog.clients.groups.assignors.sticky_claims import Claim, Ownership
from tidelog.clients.groups.assignors.subscription import (
    NO_GENERATION,
    UNKNOWN_RACKS,
    PartitionRacks,
    RebalanceProtocol,
    Subscription,
)
from tidelog.protocol.ids import TopicPartition

_GENERATION: Final = struct.Struct(">i")


class CooperativeStickyAssignor:
    """Sticky assignment for members that keep consuming while they rebalance."""

    name = "cooperative-sticky"
    rebalance_protocol = RebalanceProtocol.COOPERATIVE

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """Return the generation of the last assignment as int32; -1 before the first one."""
        return _GENERATION.pack(generation)

    def assign(
        self,
        cluster: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: PartitionRacks = UNKNOWN_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member, without those that another member has to revoke first."""
        claims = {member_id: _claim(subscription) for member_id, subscription in members.items()}
        target, ownership = assign_sticky(cluster, members, claims, racks)
        return {
            member_id: [
                partition for partition in partitions if not _must_wait(partition, member_id, ownership)
            ]
            for member_id, partitions in target.items()
        }


def _claim(subscription: Subscription) -> Claim:
    generation = subscription.generation
    user_data = subscription.user_data
    if generation == NO_GENERATION and user_data is not None and len(user_data) >= _GENERATION.size:
        (generation,) = _GENERATION.unpack_from(user_data)
    return Claim(partitions=subscription.owned_partitions, generation=generation)


def _must_wait(partition: TopicPartition, member_id: str, ownership: Ownership) -> bool:
    """Return whether another member may still consume `partition`."""
    if partition in ownership.contested:
        return True
    claimants = ownership.claimants.get(partition, [])
    if ownership.winners.get(partition) == member_id:
        return False
    return any(claimant != member_id for claimant in claimants)


class OwnershipChange(NamedTuple):
    """The change from the partitions that a member owns to its new assignment.

    `must_rejoin`: the revoked partitions have no owner until this member joins again.
    """

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    must_rejoin: bool


def ownership_change(owned: Iterable[TopicPartition], assigned: Iterable[TopicPartition]) -> OwnershipChange:
    """Compare the partitions that a member owns with its new assignment."""
    before, after = dict.fromkeys(owned), dict.fromkeys(assigned)
    revoked = tuple(partition for partition in before if partition not in after)
    added = tuple(partition for partition in after if partition not in before)
    return OwnershipChange(revoked, added, must_rejoin=bool(revoked))
