"""Cooperative sticky: the sticky assignment, reached in two rebalances without stopping consumption.

Members keep their partitions while they join. A partition that changes hands is given to nobody
in the first rebalance: its old owner sees that it lost the partition, revokes it and joins again;
the second rebalance hands it to the new owner. So no partition has two owners at any time.

The user data is the generation as int32, for brokers and members that do not know subscription
version 2, where the generation is a field of its own.

Source: CooperativeStickyAssignor of Apache Kafka, KIP-429, KIP-792.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.clients.groups.assignors.sticky import assign_sticky
from tidelog.clients.groups.assignors.sticky_claims import Claim, Ownership
from tidelog.clients.groups.assignors.subscription import NO_GENERATION, RebalanceProtocol, Subscription
from tidelog.protocol.ids import TopicPartition

_GENERATION: Final = struct.Struct(">i")


class CooperativeStickyAssignor:
    """Sticky assignment for members that keep consuming while they rebalance."""

    name = "cooperative-sticky"
    rebalance_protocol = RebalanceProtocol.COOPERATIVE

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """The generation of the last assignment, -1 before the first one."""
        return _GENERATION.pack(generation)

    def assign(
        self, cluster: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """Partitions for every member, without those that another member has to revoke first."""
        claims = {member_id: _claim(subscription) for member_id, subscription in members.items()}
        target, ownership = assign_sticky(cluster, members, claims)
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
    """Whether somebody else may still be consuming `partition`."""
    if partition in ownership.contested:
        return True
    claimants = ownership.claimants.get(partition, [])
    if ownership.winners.get(partition) == member_id:
        return False
    return any(claimant != member_id for claimant in claimants)


class OwnershipChange(NamedTuple):
    """What a cooperative member does with a new assignment, revocations first.

    `must_rejoin`: revoked partitions have no owner until this member joins once more.
    """

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]
    must_rejoin: bool


def ownership_change(owned: Iterable[TopicPartition], assigned: Iterable[TopicPartition]) -> OwnershipChange:
    """Compare what a member holds with what the leader just gave it."""
    held, given = dict.fromkeys(owned), dict.fromkeys(assigned)
    revoked = tuple(partition for partition in held if partition not in given)
    added = tuple(partition for partition in given if partition not in held)
    return OwnershipChange(revoked, added, must_rejoin=bool(revoked))
