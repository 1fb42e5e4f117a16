"""What an assignor reads and how it behaves: subscriptions of members, and the Assignor port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tidelog.protocol.ids import TopicPartition

NO_GENERATION = -1


class RebalanceProtocol(Enum):
    """What members do before they rejoin (KIP-429)."""

    EAGER = 0
    """Every member gives up all its partitions, then joins."""

    COOPERATIVE = 1
    """Members keep consuming; only what the next assignment takes away is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One member's wishes: `owned_partitions` are what it held in `generation` when it joined."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack_id: str | None = None
    group_instance_id: str | None = None
    """Not part of the bytes: the group's leader learns it from the JoinGroup reply (KIP-345)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the group's leader gave to one member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


class Assignor(Protocol):
    """Divides the partitions of topics among the members that subscribe to them; holds no state."""

    @property
    def name(self) -> str:
        """The name that members vote for, as Kafka spells it."""

    @property
    def rebalance_protocol(self) -> RebalanceProtocol:
        """What a member does with its partitions before it rejoins."""

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """What a member attaches to its subscription; `assigned` None means it never had an assignment."""

    def assign(
        self, cluster: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """Partitions for every key of `members`; `cluster` says how many partitions each topic has.

        Topics that `cluster` lacks or that have no partition are passed over.
        """


def in_assignment_order(members: Mapping[str, Subscription]) -> list[str]:
    """Member ids with static members first, by instance id, then the others by member id (KIP-345)."""
    return sorted(
        members,
        key=lambda member_id: (
            members[member_id].group_instance_id is None,
            members[member_id].group_instance_id or member_id,
        ),
    )


def subscribed_topics(cluster: Mapping[str, int], members: Mapping[str, Subscription]) -> list[str]:
    """The topics that exist and that somebody subscribes to, sorted."""
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    return sorted(topic for topic in wanted if cluster.get(topic, 0) > 0)
