"""Who owned which partition before, as the members themselves claim it.

A member that missed rebalances may still claim partitions that others got since. The claim of
the highest generation wins; two equal claims cancel each other, because then both members may
be consuming the partition and neither can be trusted to keep it.

Source: AbstractStickyAssignor of Apache Kafka, KIP-792.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.clients.groups.assignors.subscription import Subscription
from tidelog.protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one member says it owned, and in which generation (-1 when it does not say)."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1


@dataclass(slots=True)
class Ownership:
    """The claims of a whole group, settled.

    `owned` has a key for every member; `runner_up` names, for a partition whose winner has a
    later generation, the member with the next best claim.
    """

    owned: dict[str, list[TopicPartition]]
    winners: dict[TopicPartition, str] = field(default_factory=dict)
    runner_up: dict[TopicPartition, str] = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)
    claimants: dict[TopicPartition, list[str]] = field(default_factory=dict)


def settle(
    cluster: Mapping[str, int], members: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> Ownership:
    """Decide every claim; partitions that do not exist or are not subscribed to have no owner.

    They still count as claimed: their member holds them until it revokes them.
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
