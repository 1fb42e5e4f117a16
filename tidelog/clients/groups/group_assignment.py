"""The subscriptions that a consumer sends when it joins, and the assignment by the group's leader.

Pure; `tidelog.clients.groups.assignors` has the assignors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.clients.groups.assignors import (
    ASSIGNORS,
    Assignor,
    PartitionRacks,
    RebalanceProtocol,
    Subscription,
)
from tidelog.clients.groups.assignors.protocol import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.join_group import JoinGroupResponse


def rebalance_protocol(names: Sequence[str]) -> RebalanceProtocol:
    """Return the rebalance protocol that all these assignors support: cooperative only if all do."""
    if all(ASSIGNORS[name].rebalance_protocol is RebalanceProtocol.COOPERATIVE for name in names):
        return RebalanceProtocol.COOPERATIVE
    return RebalanceProtocol.EAGER


def subscriptions(
    names: Sequence[str],
    topics: Iterable[str],
    owned: Sequence[TopicPartition],
    last_assigned: Sequence[TopicPartition] | None,
    generation: int,
    rack_id: str,
) -> list[tuple[str, bytes]]:
    """Return the name and the encoded subscription of each assignor, for JoinGroup.

    `last_assigned`: the assignment in the last generation; None before the first one.
    """
    sorted_topics = tuple(sorted(topics))
    result = []
    for name in names:
        subscription = Subscription(
            topics=sorted_topics,
            user_data=ASSIGNORS[name].user_data(last_assigned, generation),
            owned_partitions=tuple(owned),
            generation=generation,
            rack_id=rack_id or None,
        )
        result.append((name, encode_subscription(subscription)))
    return result


def member_subscriptions(response: JoinGroupResponse) -> dict[str, Subscription]:
    """Return the subscription of each member, from the leader's JoinGroup response."""
    return {
        member.member_id: decode_subscription(member.metadata, group_instance_id=member.group_instance_id)
        for member in response.members
    }


def assign(
    protocol_name: str | None,
    partition_counts: Mapping[str, int],
    members: Mapping[str, Subscription],
    racks: PartitionRacks,
) -> dict[str, bytes]:
    """Assign the partitions of all subscribed topics; return the encoded assignment of each member."""
    assignor = chosen_assignor(protocol_name)
    assignment = assignor.assign(partition_counts, members, racks)
    return {member_id: encode_assignment(assignment.get(member_id, ())) for member_id in members}


def chosen_assignor(protocol_name: str | None) -> Assignor:
    """Return the assignor that the coordinator chose; raise KafkaError if it is unknown."""
    assignor = ASSIGNORS.get(protocol_name or "")
    if assignor is None:
        text = f"the coordinator chose the unknown assignor {protocol_name!r}"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
    return assignor
