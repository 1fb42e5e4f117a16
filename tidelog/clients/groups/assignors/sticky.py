"""Sticky: first as balanced as possible, then with as few moved partitions as possible (KIP-54).

Members send the partitions that they owned as user data, because they revoke all partitions before they join:

| version | fields |
|---------|--------|
| 0       | array of (topic string, array of int32 partition) |
| 1       | the same, then generation int32 |

The user data has no version number: bytes that are too short for version 1 are decoded as version 0.

If members have racks, a member keeps only partitions that have a replica in its rack, and partitions go first
to members in the racks of their replicas; the balance is the same as without racks (KIP-881).

Source: StickyAssignor and AbstractStickyAssignor of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from tidelog.base.dataclass import dataclass
from tidelog.clients.groups.assignors.racks import RackMatching
from tidelog.clients.groups.assignors.sticky_claims import Claim, Ownership, resolve_claims
from tidelog.clients.groups.assignors.sticky_equal import EqualAssignment
from tidelog.clients.groups.assignors.sticky_general import GeneralAssignment
from tidelog.clients.groups.assignors.subscription import (
    NO_GENERATION,
    UNKNOWN_RACKS,
    PartitionRacks,
    RebalanceProtocol,
    Subscription,
    subscribed_topics,
)
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.schema import Array, Int32, Message, String, Struct, Versions, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyTopic(Struct):
    """One entry of `previous_assignment` of `StickyUserData`."""

    topic: Annotated[str, String("0+")] = ""
    partitions: Annotated[tuple[int, ...], Array(Int32, "0+")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData(Message):
    """The user data of the sticky assignor, versions 0-1."""

    valid_versions: ClassVar[Versions] = versions("0-1")
    flexible_versions: ClassVar[Versions] = versions("none")

    previous_assignment: Annotated[tuple[StickyTopic, ...], Array(StickyTopic, "0+")] = ()
    generation: Annotated[int, Int32("1+", ignorable=True)] = NO_GENERATION


class StickyAssignor:
    """Assigns partitions evenly and moves as few as possible."""

    name = "sticky"
    rebalance_protocol = RebalanceProtocol.EAGER

    def user_data(self, assigned: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """Return the last assignment and its generation; None before the first one."""
        if assigned is None:
            return None
        topics = tuple(
            StickyTopic(topic=topic, partitions=tuple(indexes))
            for topic, indexes in partitions_by_topic(assigned).items()
        )
        return encode(StickyUserData(previous_assignment=topics, generation=generation), 1)

    def assign(
        self,
        cluster: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: PartitionRacks = UNKNOWN_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        claims = {
            member_id: claim_from_user_data(subscription.user_data)
            for member_id, subscription in members.items()
        }
        return assign_sticky(cluster, members, claims, racks)[0]


def claim_from_user_data(user_data: bytes | None) -> Claim:
    """Return the claim in a member's user data; an empty claim if it cannot be decoded."""
    if not user_data:
        return Claim()
    for version in (1, 0):
        try:
            data, _ = decode_prefix(StickyUserData, user_data, version, 0)
        except DecodeError:
            continue
        partitions = tuple(
            TopicPartition(entry.topic, index)
            for entry in data.previous_assignment
            for index in entry.partitions
        )
        return Claim(partitions=partitions, generation=data.generation)
    return Claim()


def assign_sticky(
    cluster: Mapping[str, int],
    members: Mapping[str, Subscription],
    claims: Mapping[str, Claim],
    racks: PartitionRacks,
) -> tuple[dict[str, list[TopicPartition]], Ownership]:
    """Return the balanced assignment and the ownership that results from the members' claims."""
    counts = {topic: cluster[topic] for topic in subscribed_topics(cluster, members)}
    ownership = resolve_claims(counts, members, claims)
    if not members:
        return {}, ownership
    partitions = (TopicPartition(topic, index) for topic in counts for index in range(counts[topic]))
    matching = RackMatching(members, partitions, racks)
    useful = matching if matching.is_useful() else None
    if len({frozenset(subscription.topics) for subscription in members.values()}) == 1:
        return EqualAssignment(counts, ownership.owned, useful).build(), ownership
    general = GeneralAssignment(counts, members, ownership, useful)
    return general.build(), ownership
