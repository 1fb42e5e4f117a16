"""The previous owner of each partition, according to the claims of the members.

A member that missed rebalances may still claim partitions that were assigned to other members since. The
claim with the highest generation wins. Two claims with the same generation cancel each other, because both
members may be consuming the partition.

Source: AbstractStickyAssignor of Apache Kafka, KIP-792.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.clients.groups.assignors.subscription import Subscription
from tidelog.protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The partitions that one member claims, and their generation (-1 if unknown)."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1


@dataclass(slots=True)
class Ownership:
    """The result of the claims of all members.

    `owned` has a key for every member. `runner_up` has, for a partition whose winner has a later generation,
    the member with the second claim.
    """

    owned: dict[str, list[TopicPartition]]
    winners: dict[TopicPartition, str] = field(default_factory=dict)
    runner_up: dict[TopicPartition, str] = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)
    claimants: dict[TopicPartition, list[str]] = field(default_factory=dict)


def resolve_claims(
    cluster: Mapping[str, int], members: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> Ownership:
    """Return the owner of each claimed partition.

    Partitions that do not exist or have no subscriber have no owner, but they are still listed as claimed:
    their member has them until it revokes them.
    """
    result = Ownership(owned={member_id: [] for member_id in members})
    for member_id in sorted(members):
        for partition in dict.fromkeys(claims[member_id].partitions):
            result.claimants.setdefault(partition, []).append(member_id)
    for partition, claimants in result.claimants.items():
        if not 0 <= partition.partition < cluster.get(partition.topic, 0):
            continue
        ranked = sorted(claimants, key=lambda member_id: -claims[member_id].generation)
        winner = ranked[0]
        if len(ranked) > 1:
            if claims[ranked[1]].generation == claims[winner].generation:
                result.contested.add(partition)
                continue
            result.runner_up[partition] = ranked[1]
        result.winners[partition] = winner
        if partition.topic in members[winner].topics:
            result.owned[winner].append(partition)
    return result
