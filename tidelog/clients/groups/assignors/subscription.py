"""Subscriptions and assignments of group members, and the interface of assignors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import TopicPartition

NO_GENERATION = -1


class RebalanceProtocol(Enum):
    """What members do with their partitions before they rejoin (KIP-429)."""

    EAGER = 0
    """Each member revokes all its partitions, then joins."""

    COOPERATIVE = 1
    """Members continue to consume, and revoke only the partitions that the next assignment removes."""


PartitionRacks: TypeAlias = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas; partitions that are missing have no known rack."""

UNKNOWN_RACKS: Final[PartitionRacks] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One member's subscription; it owned `owned_partitions` in `generation` when it joined."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None
    """Not part of the encoded bytes: it is in the leader's JoinGroup response (KIP-345)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The partitions that the group's leader assigned to one member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


class Assignor(Protocol):
    """Divides the partitions of topics among the subscribed members; has no state."""

    @property
    def name(self) -> str:
        """Kafka's name of the assignor, in JoinGroup."""

    @property
    def rebalance_protocol(self) -> RebalanceProtocol:
        """The partitions that a member revokes before it rejoins: all, or only reassigned ones (KIP-429)."""

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """Return the user data of a subscription; `assigned` is None before the first assignment."""

    def assign(
        self,
        cluster: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: PartitionRacks = UNKNOWN_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member; `cluster` has the number of partitions of each topic.

        Topics that are not in `cluster` or have no partitions are ignored.
        """


def in_assignment_order(members: Mapping[str, Subscription]) -> list[str]:
    """Return the member ids: static members first, by instance id, then the others by id (KIP-345)."""
    return sorted(
        members,
        key=lambda member_id: (
            members[member_id].group_instance_id is None,
            members[member_id].group_instance_id or member_id,
        ),
    )


def subscribed_topics(cluster: Mapping[str, int], members: Mapping[str, Subscription]) -> list[str]:
    """Return the existing topics that a member subscribes to, sorted."""
    topics = {topic for subscription in members.values() for topic in subscription.topics}
    return sorted(topic for topic in topics if cluster.get(topic, 0) > 0)
